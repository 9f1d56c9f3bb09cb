//! Which commitments bind: the estimate of module-SIS.
//!
//! A commitment of `kappa` rows is ring-SIS in degree `64 g`, truncated to `kappa` of its `g` coordinates unless
//! `kappa = g`. It is estimated as module-SIS with `64 kappa` integer rows modulo `Q`, since no known attack does
//! better by exploiting the structure. With root Hermite factor `delta`, lattice reduction finds vectors of norm
//! `B_kappa = min(2^48, 2^(2 sqrt(64 kappa log2 Q log2 delta)))` (Micciancio and Regev 2009, section 3), so the
//! commitment binds vectors whose differences are shorter. `delta(b) = ((b / 2 pi e) (pi b)^(1/b))^(1/(2b-2))` for
//! block size `b` (Chen 2013), and the core-SVP cost of a block is `2^(0.2925 b)` classical and `2^(0.265 b)` quantum
//! operations (Albrecht, Gheorghiu, Postlethwaite and Schanck, eprint 2019/1161).

/// Maximum number of rows of a commitment, and therefore of elements in a group.
pub(crate) const ROWS_MAX: usize = 32;

/// How hard it must be to break a commitment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// 128 bits classical core-SVP, 116 quantum: block size 438, `delta` = 1.003738.
    Core128,
    /// As hard as forging Falcon-512: 120 bits classical, 108 quantum; block size 411,
    /// `delta` = 1.003908.
    Falcon,
    /// What an older implementation calls 128 bits, only for comparing sizes: 99 bits classical,
    /// 90 quantum; block size 340, `delta` = 1.004452.
    Peer,
}

impl Profile {
    /// All profiles, starting with the default.
    pub const ALL: [Self; 3] = [Self::Core128, Self::Falcon, Self::Peer];

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Core128 => "core128",
            Self::Falcon => "falcon",
            Self::Peer => "peer",
        }
    }

    /// The byte of the profile on the wire.
    #[must_use]
    pub fn id(self) -> u8 {
        match self {
            Self::Core128 => 0,
            Self::Falcon => 1,
            Self::Peer => 2,
        }
    }

    /// Returns the block size of the lattice reduction that breaks a commitment.
    #[must_use]
    pub fn block_size(self) -> u32 {
        match self {
            Self::Core128 => 438,
            Self::Falcon => 411,
            Self::Peer => 340,
        }
    }

    /// Returns the classical and quantum bits of core-SVP, rounded down.
    #[must_use]
    pub fn bits(self) -> (u32, u32) {
        (
            self.block_size() * 2925 / 10_000,
            self.block_size() * 265 / 1000,
        )
    }

    /// Returns the smallest number of rows whose commitment binds vectors of squared norm `norm_sq`, or
    /// None if 32 rows are not enough.
    #[must_use]
    pub(crate) fn rows_for(self, norm_sq: u128) -> Option<usize> {
        let table = match self {
            Self::Core128 => &CORE_128,
            Self::Falcon => &FALCON,
            Self::Peer => &PEER,
        };
        Some(table.iter().position(|&limit| norm_sq < limit)? + 1)
    }
}

/// Block size 438.
const CORE_128: [u128; ROWS_MAX] = [
    78_776,
    8_405_307,
    302_559_983,
    6_205_797_360,
    88_854_729_881,
    985_549_916_211,
    9_008_521_758_114,
    70_649_186_561_182,
    488_873_375_158_363,
    3_046_298_981_329_281,
    17_358_717_185_847_960,
    91_542_543_423_045_376,
    451_041_934_414_159_040,
    2_092_409_680_196_785_664,
    9_197_525_278_033_276_928,
    38_511_920_879_201_165_312,
    154_301_240_526_688_485_376,
    593_828_105_696_248_332_288,
    2_202_457_493_361_769_840_640,
    7_895_163_022_319_236_939_776,
    27_423_198_771_891_226_542_080,
    92_500_924_915_265_579_253_760,
    303_601_345_969_947_150_385_152,
    971_308_637_344_877_835_714_560,
    3_033_849_101_161_230_478_868_480,
    9_264_735_026_738_870_433_611_776,
    27_697_110_398_506_839_591_354_368,
    81_153_464_266_426_092_529_647_616,
    233_299_857_468_072_622_955_692_032,
    658_689_448_521_859_584_996_933_632,
    1_828_077_982_345_654_322_107_252_736,
    4_991_307_561_756_750_071_927_406_592,
];

/// Block size 411.
const FALCON: [u128; ROWS_MAX] = [
    101_442,
    12_018_826,
    468_840_100,
    10_290_511_141,
    156_402_905_683,
    1_830_968_198_472,
    17_587_701_658_043,
    144_452_187_576_597,
    1_043_891_643_064_480,
    6_777_239_619_072_867,
    40_155_801_201_220_560,
    219_811_039_548_289_088,
    1_122_476_875_617_483_648,
    5_389_572_663_813_408_768,
    24_490_676_165_352_509_440,
    105_894_619_561_197_322_240,
    437_690_934_558_397_169_664,
    1_736_145_762_838_628_532_224,
    6_631_326_567_027_874_725_888,
    24_461_868_906_359_359_012_864,
    87_372_568_078_806_960_570_368,
    302_862_864_581_119_990_300_672,
    1_020_893_334_617_080_763_252_736,
    3_352_444_543_818_406_261_948_416,
    10_742_178_583_872_532_515_913_728,
    33_636_103_971_610_245_384_372_224,
    103_056_229_805_184_351_360_516_096,
    309_327_249_612_351_936_361_660_416,
    910_566_232_595_872_508_920_463_360,
    2_631_405_983_883_726_343_599_292_416,
    7_472_136_723_284_802_875_405_893_632,
    20_866_434_495_664_479_471_988_113_408,
];

/// Block size 340; the last rows end at the square of `2^48`.
const PEER: [u128; ROWS_MAX] = [
    220_072,
    35_936_038,
    1_793_068_427,
    48_432_097_775,
    883_775_955_613,
    12_205_685_776_590,
    136_490_584_236_399,
    1_291_398_866_496_085,
    10_658_594_022_016_093,
    78_465_570_050_038_348,
    523_948_936_263_971_686,
    3_215_094_387_228_254_984,
    18_318_839_760_408_245_115,
    97_735_858_835_144_525_268,
    491_667_637_856_370_070_299,
    2_345_668_094_981_922_148_186,
    10_665_140_212_357_515_671_549,
    46_407_759_446_757_094_161_718,
    193_958_172_604_763_646_598_541,
    781_059_939_720_682_636_982_874,
    3_038_897_375_105_635_036_410_548,
    11_451_404_801_892_179_604_406_524,
    41_884_130_919_407_419_765_931_086,
    148_978_765_276_872_544_287_142_567,
    516_218_067_828_741_244_458_209_619,
    1_745_225_504_137_986_790_501_709_854,
    5_764_884_238_543_976_369_837_487_253,
    18_629_679_585_193_551_891_187_951_429,
    58_966_024_766_808_579_392_797_324_708,
    79_228_162_514_264_337_593_543_950_336,
    79_228_162_514_264_337_593_543_950_336,
    79_228_162_514_264_337_593_543_950_336,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::Q;

    #[test]
    fn the_tables_follow_the_formula() {
        let tables = [CORE_128, FALCON, PEER];
        for (profile, table) in Profile::ALL.into_iter().zip(tables) {
            let b = f64::from(profile.block_size());
            let pi = std::f64::consts::PI;
            let delta = ((b / (2.0 * pi * std::f64::consts::E)) * (pi * b).powf(1.0 / b))
                .powf(1.0 / (2.0 * b - 2.0));
            for (i, &limit) in table.iter().enumerate() {
                let rows = 64.0 * (i + 1) as f64;
                let log = 2.0 * (rows * (Q as f64).log2() * delta.log2()).sqrt();
                let expected = log.min(48.0);
                let stored = (limit as f64).log2() / 2.0;
                assert!((stored - expected).abs() < 1e-5, "rows {}", i + 1);
            }
        }
    }

    #[test]
    fn profiles_state_their_bits() {
        assert_eq!(Profile::Core128.bits(), (128, 116));
        assert_eq!(Profile::Falcon.bits(), (120, 108));
        assert_eq!(Profile::Peer.bits(), (99, 90));
        assert_eq!(Profile::ALL.map(Profile::id), [0, 1, 2]);
    }

    #[test]
    fn rows_are_the_least_that_bind() {
        assert_eq!(Profile::Core128.rows_for(1), Some(1));
        // 2^8.133 for one row.
        assert_eq!(Profile::Core128.rows_for(CORE_128[0]), Some(2));
        assert_eq!(Profile::Core128.rows_for(CORE_128[0] - 1), Some(1));
        assert_eq!(Profile::Core128.rows_for(1 << 96), None);
    }
}
