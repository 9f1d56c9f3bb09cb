use super::lean::{chain_tweak, message_tweak, separator, sponges, tree_tweak};
use super::*;
use alphorn_stark::KERNELS;

fn canonical(elements: &[Fp]) -> Vec<u32> {
    elements.iter().map(|x| x.canonical()).collect()
}

/// start, start + 1, … in the first `count` elements, the others zero.
fn counting<const N: usize>(start: u32, count: usize) -> [Fp; N] {
    std::array::from_fn(|i| match i < count {
        true => Fp::new(start + i as u32),
        false => Fp::ZERO,
    })
}

fn each(test: impl Fn(Backend)) {
    KERNELS.available().into_iter().for_each(test);
}

#[test]
fn separators_and_sponges_have_the_known_values() {
    let known = [
        (
            [5, 2, 46, 8],
            [
                2060061975, 916902315, 229801915, 83751504, 2093549181, 1743125625, 721042244,
                1252069948, 1192880636,
            ],
        ),
        (
            [5, 2, 4, 8],
            [
                627826400, 1244476188, 370678638, 978729783, 1996000804, 1380088873, 1753334201,
                433326939, 1294775677,
            ],
        ),
    ];
    for (lengths, known) in known {
        assert_eq!(canonical(&separator(lengths)), known);
    }
    each(|backend| {
        let out = sponges(backend, &separator([1, 2, 3, 4]), &[vec![Fp::ONE; 5]]);
        let known = [
            477552014, 972552740, 1695413639, 12018845, 1258639896, 1015276872, 1156253900,
            190862312,
        ];
        assert_eq!(canonical(&out[0]), known);
    });
}

#[test]
fn tweaks_have_the_known_limbs() {
    assert_eq!(canonical(&tree_tweak(1, 0)), [67108349, 516]);
    assert_eq!(canonical(&tree_tweak(32, 0)), [16760704, 16513]);
    assert_eq!(
        canonical(&chain_tweak(1 << 31, 45, 7)),
        [120259320, 16909320]
    );
    assert_eq!(canonical(&message_tweak(u32::MAX)), [67108094, 516]);
    let slot = 123_456_789;
    let compact = |kind, sub, index| canonical(&super::compact::tweak(kind, sub, index));
    assert_eq!(compact(0, 8 * 5 + 3, slot), [1928235, 52501]);
    assert_eq!(compact(1, 0, slot), [69037056, 52501]);
    assert_eq!(compact(2, 1, slot >> 1), [135181313, 59018]);
    assert_eq!(compact(3, 0, slot), [203254784, 52501]);
}

fn walk(slot: u32, chain: u8, from: u8, digest: Digest, parameter: Parameter) -> Walk {
    Walk {
        parameter,
        slot,
        chain,
        from,
        to: from + 1,
        digest,
    }
}

#[test]
fn chains_have_the_known_values() {
    each(|backend| {
        let mut walks = [walk(0, 1, 0, counting(0, 8), [Fp::ONE; 5])];
        Set::Prod.instance().walk(backend, &mut walks);
        let known = [
            486628877, 1489818024, 465621198, 1039062572, 735121219, 2072497154, 800300299,
            543601961,
        ];
        assert_eq!(canonical(&walks[0].digest), known);
        let mut walks = [walk(123_456_789, 5, 3, counting(10, 4), counting(1, 4))];
        Set::Compact.instance().walk(backend, &mut walks);
        let known = [502720936, 1499463561, 135206793, 1332917931, 0, 0, 0, 0];
        assert_eq!(canonical(&walks[0].digest), known);
    });
}

#[test]
fn nodes_have_the_known_values() {
    each(|backend| {
        let mut children = Children {
            parameter: counting(1, 5),
            level: 1,
            index: 0,
            left: counting(0, 8),
            right: counting(8, 8),
        };
        let nodes = Set::Prod.instance().nodes(backend, &[children]);
        let known = [
            1704051161, 991910467, 1337699406, 1631677712, 1476141066, 1853249231, 615865067,
            508927784,
        ];
        assert_eq!(canonical(&nodes[0]), known);
        children.parameter = counting(1, 4);
        (children.left, children.right) = (counting(1, 4), counting(5, 4));
        children.index = 123_456_789 >> 1;
        let nodes = Set::Compact.instance().nodes(backend, &[children]);
        let known = [295434993, 1562356444, 1536237409, 503139100, 0, 0, 0, 0];
        assert_eq!(canonical(&nodes[0]), known);
    });
}

#[test]
fn leaves_have_the_known_values() {
    each(|backend| {
        let digests: Vec<Digest> = (0..46).map(|i| counting(8 * i, 8)).collect();
        let tips = Tips {
            parameter: counting(1, 5),
            slot: 7,
            digests: &digests,
        };
        let leaves = Set::Prod.instance().leaves(backend, &[tips]);
        let known = [
            1957135552, 159918813, 1018658767, 341974782, 1991973425, 292177174, 2004658931,
            305155948,
        ];
        assert_eq!(canonical(&leaves[0]), known);
        let digests: Vec<Digest> = (0..42).map(|i| counting(4 * i, 4)).collect();
        let tips = Tips {
            parameter: counting(1, 4),
            slot: 123_456_789,
            digests: &digests,
        };
        let leaves = Set::Compact.instance().leaves(backend, &[tips]);
        let known = [221442153, 90972328, 511537910, 562679601, 0, 0, 0, 0];
        assert_eq!(canonical(&leaves[0]), known);
    });
}

#[test]
fn messages_have_the_known_limbs() {
    let bytes: [u8; 32] = std::array::from_fn(|i| i as u8);
    let known = [
        158200685, 22817125, 768861932, 1220633732, 741473605, 1829125427, 227592113, 282695284, 33,
    ];
    assert_eq!(canonical(&message_limbs(&bytes)), known);
    assert_eq!(canonical(&message_limbs(&[0xff; 32])[8..]), [272]);
}

#[test]
fn the_compact_code_is_the_known_one() {
    each(|backend| {
        let encoding = |counter: u32| Encoding {
            parameter: counting(1, 4),
            slot: 123_456_789,
            message: counting(100, 8),
            randomness: counting(counter, 1),
        };
        let encodings: Vec<Encoding> = (0..1439).map(encoding).collect();
        let codes = Set::Compact.instance().encode(backend, &encodings);
        assert_eq!(codes.iter().position(Option::is_some), Some(1438));
        let code = codes[1438].unwrap();
        let digits: String = code[..42]
            .iter()
            .map(|digit| char::from(b'0' + digit))
            .collect();
        assert_eq!(digits, "040456564577466051643774402377351454647745");
    });
}

/// Vectors of slots give the same leaves as individual walks, even where a tweak passes p.
#[test]
fn fresh_leaves_are_those_of_single_chains() {
    let p = u64::from(alphorn_stark::field::P);
    // The first limb of its tweak is near p: chains of the slots around it carry.
    let carries = (0..1u64 << 32)
        .step_by(65_537)
        .find(|slot| (slot << 24) % p + (45 << 16) >= p);
    let carries = carries.unwrap() as u32;
    for (set, first) in [
        (Set::Prod, carries - 3),
        (Set::Prod, u32::MAX - 39),
        (Set::Compact, (1 << 16) - 5),
        (Set::Test, 100),
    ] {
        let (instance, chains) = (set.instance(), set.params().chains);
        let parameter = counting(7, set.params().parameter);
        let starts: Vec<Digest> = (0..40 * chains as u32)
            .map(|i| counting(31 * i, set.params().digest))
            .collect();
        let mut walks: Vec<Walk> = starts
            .iter()
            .enumerate()
            .map(|(i, digest)| Walk {
                parameter,
                slot: first + (i / chains) as u32,
                chain: (i % chains) as u8,
                from: 0,
                to: BASE - 1,
                digest: *digest,
            })
            .collect();
        let portable = Backend::Portable;
        instance.walk(portable, &mut walks);
        let ends: Vec<Digest> = walks.iter().map(|walk| walk.digest).collect();
        let tips: Vec<Tips<'_>> = ends
            .chunks_exact(chains)
            .zip(first..=u32::MAX)
            .map(|(digests, slot)| Tips {
                parameter,
                slot,
                digests,
            })
            .collect();
        let expected = instance.leaves(portable, &tips);
        each(|backend| {
            for count in [1, 8, 16, 17, 32, 33, 40] {
                let starts = &starts[..count * chains];
                let leaves = instance.fresh_leaves(backend, &parameter, first, starts);
                assert_eq!(leaves, expected[..count], "{set} {backend} {count}");
            }
        });
    }
}
