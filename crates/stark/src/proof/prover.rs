//! The prover.

use alphorn_exec::{Exec, Stopped};

use super::reduce::native_header;
use super::weights::{BusWeights, Denominators, RowWeights, Setting};
use super::witness::Run;
use super::{Public, PublicPoint, column_at};
use crate::arith::Native;
use crate::claims::{Column, Committed};
use crate::extension::Ext;
use crate::field::Fp;
use crate::hash::DIGEST;
use crate::kernel::{Dispatch, Packed, Pass};
use crate::logup::{self, Group};
use crate::multilinear::{eq_table, powers};
use crate::poseidon_gkr::{self, OutputClaim};
use crate::relation::{BUS_GROUPS_FIXED, Part};
use crate::sumcheck::{quadratic, send_round};
use crate::transcript::Sender;
use crate::vector::{Planes, Vector, eq_planes};

/// The slices used by each argument: the same for all, except for dishonest provers in tests.
#[derive(Clone, Copy)]
pub(super) struct Sides<'a> {
    pub(super) bus: &'a [Vec<Fp>],
    pub(super) union: &'a [Vec<Fp>],
    pub(super) committed: &'a [Vec<Fp>],
}

/// The transcript up to the commitment.
pub(super) fn begin(sender: &mut Sender, public: &Public<'_>, groups: usize) {
    sender.absorb(&[Fp::ZERO; DIGEST]);
    sender.absorb(&public.digest);
    sender.absorb(&native_header(groups));
}

/// Everything after the commitment.
pub(super) fn argue(
    exec: Exec<'_>,
    public: &Public<'_>,
    run: &Run<'_>,
    sides: Sides<'_>,
    sender: &mut Sender,
) -> Result<(), Stopped> {
    let relation = run.relation;
    let used = vec![Fp::ONE; run.groups.len()];
    let argued = |slices| Committed {
        shape: relation.shape,
        slices,
    };
    let prover = Prover {
        exec,
        public,
        committed: argued(sides.bus),
        setting: Setting {
            relation,
            publics: &public.values,
            used: &used,
        },
        run,
    };
    let claims = prover.bus(sender)?;
    exec.step("permutations")?;
    for (traced, claim) in run.traced.iter().zip(&claims) {
        poseidon_gkr::prove(sender, exec, &traced.part.units, &traced.trace, claim)?;
    }
    // The verifier combines cubes and inputs here; nothing is sent.
    sender.challenge();
    exec.step("union")?;
    let prover = Prover {
        committed: argued(sides.union),
        ..prover
    };
    prover.union(sender);
    Ok(())
}

struct Prover<'a> {
    exec: Exec<'a>,
    public: &'a Public<'a>,
    committed: Committed<'a>,
    setting: Setting<'a, Native<'a>>,
    run: &'a Run<'a>,
}

impl Prover<'_> {
    /// The bus; returns the claims on outputs of each width.
    fn bus(&self, sender: &mut Sender) -> Result<Vec<OutputClaim<Ext>>, Stopped> {
        self.exec.step("fractions")?;
        let arith = Native::new(&[]);
        let denominators = Denominators {
            alpha: sender.challenge(),
            beta: sender.challenge(),
        };
        let cube = self.setting.relation.shape.bus();
        let fractions = self.fractions(denominators)?;
        self.exec.step("bus")?;
        let leaves = logup::prove(sender, self.exec, cube, fractions)?;
        self.exec.step("wires")?;
        let mut weights = self.setting.bus(&arith, &leaves, denominators);
        let point = PublicPoint::new(&leaves.within);
        let columns = self.exec.map(self.setting.relation.registry_width, |k| {
            point.value(self.exec, self.public.registry.column(k))
        });
        sender.send(&columns);
        let outputs = self.outputs_sum(&weights, &weights.outputs);
        sender.send(&[outputs]);
        let tau = sender.challenge();
        let parts = self.run.traced.iter().map(|traced| traced.part.clone());
        let parts: Vec<Part> = parts.collect();
        let on_bus = std::mem::take(&mut weights.outputs);
        let wire_weights = self.setting.outputs(&arith, on_bus, &parts, tau);
        let zeros = vec![Ext::ZERO; parts.len()];
        let claims = self
            .setting
            .wired(&arith, &parts, &weights, wire_weights, outputs, &zeros);
        // A claim on the cells whose sum is zero; the missing part is the sum of the wires.
        let wired: Vec<Ext> = claims
            .iter()
            .map(|(claim, _)| {
                let parts = claim.parts.iter();
                let sums = parts.map(|part| self.committed.sum(self.exec, part));
                sums.sum::<Ext>() - claim.value
            })
            .collect();
        sender.send(&wired);
        let claims = claims.into_iter().zip(wired);
        let outputs = claims.map(|((_, output), wired)| OutputClaim {
            value: output.value + wired,
            ..output
        });
        Ok(outputs.collect())
    }

    /// Σ weight·κ·eq·output.
    fn outputs_sum(&self, weights: &BusWeights<Ext>, rows: &RowWeights<Ext>) -> Ext {
        let eq = eq_table(Ext::ONE, &weights.lanes);
        let sums = self.exec.map(weights.groups.len(), |g| {
            let mut sum = Ext::ZERO;
            for (row, lanes) in rows.iter().enumerate() {
                let used = lanes.iter().enumerate().filter(|(_, w)| **w != Ext::ZERO);
                for (lane, weight) in used {
                    let values = self.run.output(g, row, lane);
                    sum += *weight * column_at(&eq, values.into_iter());
                }
            }
            weights.groups[g] * sum
        });
        sums.into_iter().sum()
    }

    /// The fractions of all used groups of the bus.
    fn fractions(&self, denominators: Denominators<Ext>) -> Result<Vec<Group>, Stopped> {
        let betas = powers(
            denominators.beta,
            denominators.beta,
            self.setting.relation.entries_max(),
        );
        let groups = BUS_GROUPS_FIXED + self.setting.used.len();
        self.exec.try_map(groups, |group| match group {
            0 => self.registry_fractions(denominators, &betas),
            1 => self.table_fractions(denominators.alpha, &betas),
            _ => self.instance_fractions(group - BUS_GROUPS_FIXED, denominators.alpha, &betas),
        })
    }

    fn registry_fractions(&self, denominators: Denominators<Ext>, betas: &[Ext]) -> Group {
        let relation = self.setting.relation;
        let rows = 1 << relation.shape.column_log2();
        let counts = self.committed.column(Column::Counts);
        let tag = Ext::from(Fp::new(relation.registry_tag));
        let mut group = empty_group(rows);
        for (i, count) in counts.iter().enumerate() {
            let row = self.public.registry.row(i);
            let terms = betas[1..].iter().zip(row).map(|(b, x)| *b * x);
            let tuple = tag + betas[0] * Fp::new(i as u32) + terms.sum();
            // The registry takes each row off as often as its count says.
            group.p.set(i, Ext::from(-*count));
            group.q.set(i, denominators.alpha - tuple);
        }
        group
    }

    fn table_fractions(&self, alpha: Ext, betas: &[Ext]) -> Group {
        let relation = self.setting.relation;
        let counts = self.committed.column(Column::Tables);
        let mut group = empty_group(counts.len());
        for table in &relation.tables {
            let tag = Ext::from(Fp::new(table.tag));
            for (at, row) in (table.offset..).zip(&table.rows) {
                let values = row
                    .iter()
                    .map(|form| form.value(self.run.publics, |_| Fp::ZERO));
                let tuple: Ext = betas.iter().zip(values).map(|(b, x)| *b * x).sum();
                group.p.set(at, Ext::from(-counts[at]));
                group.q.set(at, alpha - tag - tuple);
            }
        }
        group
    }

    fn instance_fractions(&self, g: usize, alpha: Ext, betas: &[Ext]) -> Group {
        let relation = self.setting.relation;
        let lanes = relation.shape.lanes();
        let slices = relation.group_slices();
        // The first two slices hold the columns.
        let cells = self.committed.slices[2 + g * slices..][..slices].concat();
        let mut group = empty_group(1 << relation.shape.column_log2());
        for (position, tuple) in relation.bus.iter().enumerate() {
            let Some(tuple) = tuple else { continue };
            let tag = alpha - Ext::from(Fp::new(tuple.tag));
            let mut denominators = vec![tag; lanes];
            for (entry, beta) in tuple.entries.iter().zip(betas) {
                let values = self.run.entry(g, &cells, entry);
                for (denominator, value) in denominators.iter_mut().zip(values) {
                    *denominator -= *beta * value;
                }
            }
            let numerator = if tuple.taken { -Ext::ONE } else { Ext::ONE };
            for (x, denominator) in denominators.into_iter().enumerate() {
                group.p.set(position * lanes + x, numerator);
                group.q.set(position * lanes + x, denominator);
            }
        }
        group
    }

    /// Proves that the bitfield is the product of counts and inverses.
    fn union(&self, sender: &mut Sender) {
        let rows = self.setting.relation.shape.column_log2();
        let point = sender.challenges(rows);
        let bitfield = super::bits(&self.public.statement.bitfield);
        sender.send(&[PublicPoint::new(&point).value(self.exec, &bitfield)]);
        let columns = [Column::Counts, Column::Inverses];
        let mut columns = columns.map(|column| Planes::from_base(self.committed.column(column)));
        for round in 0..rows {
            let weights = eq_planes(self.exec, Ext::ONE, &point[round + 1..]);
            let backend = self.exec.backend().fitting(weights.len());
            let sums = backend.run(UnionSums {
                columns: &columns,
                weights: &weights,
            });
            let x = send_round(sender, &quadratic(sums));
            columns = columns.each_ref().map(|column| column.fold(backend, x));
        }
        sender.send(&columns.map(|column| column.get(0)));
    }
}

/// h(0), h(1) and the leading coefficient of h for the product of two columns.
struct UnionSums<'a> {
    columns: &'a [Planes; 2],
    weights: &'a Planes,
}

impl Pass for UnionSums<'_> {
    type Output = [Ext; 3];

    #[inline(always)]
    fn run<V: Packed>(self) -> [Ext; 3] {
        let half = self.weights.len();
        let [a, b] = self.columns;
        let mut sums = [Vector::<V>::zero(); 3];
        for x in (0..half).step_by(V::LANES) {
            let low = [a.load::<V>(x), b.load(x)];
            let high = [a.load::<V>(half + x), b.load(half + x)];
            let slope = [high[0].sub(low[0]), high[1].sub(low[1])];
            let weight = self.weights.load(x);
            let points = [low, high, slope];
            for k in 0..3 {
                sums[k] = sums[k].add(weight.mul(points[k][0].mul(points[k][1])));
            }
        }
        [sums[0].total(), sums[1].total(), sums[2].total()]
    }
}

/// A group of fractions 0/1.
fn empty_group(size: usize) -> Group {
    Group {
        p: Planes::zero(size),
        q: Planes::from_exts(&vec![Ext::ONE; size]),
    }
}
