//! The model passes the battery of a scheme, in each of the forms that the real schemes have.
#![allow(missing_docs)]

use alphorn_scheme::battery::Fixture;
use alphorn_scheme::model::{CostTable, Model, ModelRegistry, ModelSigners};
use alphorn_scheme::{Form, Overlap};

/// A model with the abilities of one kind of scheme.
struct Kind {
    layers: [Form; 2],
    overlap: [Overlap; 2],
    one_time: bool,
    bundle_max: Option<u16>,
}

impl Fixture for Kind {
    type S = Model;

    fn scheme(&self) -> Model {
        let mut table = CostTable::example();
        table.abilities.layers = self.layers;
        table.abilities.overlap = self.overlap;
        table.abilities.one_time = self.one_time;
        table.abilities.bundle_max = self.bundle_max;
        table.abilities.unique = !self.one_time;
        Model::new(table).unwrap()
    }

    fn registry(&self, validators: u32) -> ModelRegistry {
        ModelRegistry { validators }
    }

    fn signers(&self, validators: u32) -> ModelSigners {
        ModelSigners { validators }
    }
}

const SUMS: Kind = Kind {
    layers: [Form::Point; 2],
    overlap: [Overlap::Counted { max: 15 }; 2],
    one_time: false,
    bundle_max: None,
};
const LISTS: Kind = Kind {
    layers: [Form::List; 2],
    overlap: [Overlap::Union; 2],
    one_time: true,
    bundle_max: None,
};
const LISTS_THEN_PROOF: Kind = Kind {
    layers: [Form::List, Form::Proof],
    overlap: [Overlap::Union, Overlap::None],
    one_time: false,
    bundle_max: None,
};
const MERGING_PROOFS: Kind = Kind {
    layers: [Form::Proof; 2],
    overlap: [Overlap::Union; 2],
    one_time: true,
    bundle_max: Some(5),
};

alphorn_scheme::battery!(sums, SUMS);
alphorn_scheme::battery!(lists, LISTS);
alphorn_scheme::battery!(lists_then_proof, LISTS_THEN_PROOF);
alphorn_scheme::battery!(merging_proofs, MERGING_PROOFS);
