//! The values that the matrices of a circuit multiply outside of lanes: variables and single cells.

use alphorn_exec::Backend;

use super::cells::CellWeights;
use crate::extension::{DEGREE, Ext};
use crate::field::Fp;
use crate::kernel::{Dispatch, Packed, Pass};
use crate::vector::{Planes, Vector};

/// Number of rows of a batch that are taken together: a multiple of the lanes of each kernel.
pub(super) const LANES: usize = 16;

/// X · x.
pub(super) fn times_x(x: Ext) -> Ext {
    let [a, b, c, d, e] = x.0;
    Ext([e, a, b - e, c, d])
}

/// The values of a circuit and their positions among its cells.
#[derive(Clone, Debug, Default)]
pub(super) struct Sources {
    /// The first cells of the variables.
    pub(super) variables: Vec<u32>,
    /// Single cells, numbered after the variables.
    pub(super) cells: Vec<u32>,
}

/// Elements in the lanes of a vector: coefficient k of lane l at k, l.
pub(super) type Buffer = [[Fp; LANES]; DEGREE];

#[inline(always)]
pub(super) fn load<V: Packed>(buffer: &Buffer) -> Vector<V> {
    let mut out = Vector::<V>::zero();
    for (out, lanes) in out.0.iter_mut().zip(buffer) {
        *out = V::load(lanes);
    }
    out
}

impl Sources {
    pub(super) fn len(&self) -> usize {
        self.variables.len() + self.cells.len()
    }

    /// The values, with weights as the contents of cells, followed by zeros.
    pub(super) fn values(&self, backend: Backend, cells: &CellWeights) -> Planes {
        backend.run(Values { of: self, cells })
    }

    /// The values of a witness, followed by zeros.
    pub(super) fn values_of_base(&self, cells: &[Fp]) -> Planes {
        let mut values = Planes::zero(self.len() + LANES);
        for (i, first) in self.variables.iter().enumerate() {
            let five = &cells[*first as usize..][..DEGREE];
            values.set(i, Ext(std::array::from_fn(|t| five[t])));
        }
        for (i, cell) in self.cells.iter().enumerate() {
            let value = Ext::from(cells[*cell as usize]);
            values.set(self.variables.len() + i, value);
        }
        values
    }

    /// Distributes weights of values to their cells.
    pub(super) fn spread(&self, values: &Planes, out: &mut Planes) {
        for (i, first) in self.variables.iter().enumerate() {
            let mut value = values.get(i);
            for cell in *first as usize..*first as usize + DEGREE {
                out.set(cell, out.get(cell) + value);
                value = times_x(value);
            }
        }
        for (i, cell) in self.cells.iter().enumerate() {
            let cell = *cell as usize;
            out.set(cell, out.get(cell) + values.get(self.variables.len() + i));
        }
    }
}

/// All values, with weights as the contents of cells.
struct Values<'a> {
    of: &'a Sources,
    cells: &'a CellWeights,
}

impl Pass for Values<'_> {
    type Output = Planes;

    #[inline(always)]
    fn run<V: Packed>(self) -> Planes {
        let Sources { variables, cells } = self.of;
        let mut out = Planes::zero(self.of.len() + LANES);
        let mut buffers = [[[Fp::ZERO; LANES]; DEGREE]; 2];
        let lists = [(variables, DEGREE, 0), (cells, 1, variables.len())];
        for (list, count, from) in lists {
            for (i, first) in list.chunks(V::LANES).enumerate() {
                let at = from + i * V::LANES;
                for (lane, first) in first.iter().enumerate() {
                    let factors = self.cells.factors(*first as usize, count);
                    // A variable that straddles two inner tables has no such factors. It gets zero here, and its
                    // value after the store.
                    for (buffer, x) in buffers.iter_mut().zip(factors.unwrap_or([&Ext::ZERO; 2])) {
                        for (buffer, x) in buffer.iter_mut().zip(&x.0) {
                            buffer[lane] = *x;
                        }
                    }
                }
                let [outer, inner] = &buffers;
                out.store(at, load::<V>(outer).mul(load(inner)));
                for (lane, first) in first.iter().enumerate() {
                    if self.cells.factors(*first as usize, count).is_none() {
                        out.set(at + lane, self.cells.get(*first as usize, count));
                    }
                }
            }
        }
        // Lanes of the last vectors beyond the values.
        for i in self.of.len()..out.len() {
            out.set(i, Ext::ZERO);
        }
        out
    }
}
