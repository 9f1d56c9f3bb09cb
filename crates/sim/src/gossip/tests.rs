//! Mesh, grid and direct dissemination in small networks, honest and attacked.

mod attacks;
mod mesh;
mod plain;
mod scripts;
mod world;
