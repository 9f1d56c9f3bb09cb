//! `unsafe` lives in kernels only, in files named after an instruction set, at two borders (to `blst`, and to
//! the callers of the C library), and where points lie in mapped memory.

use super::Report;
use crate::source::find_words;
use crate::tree::{File, Tree};

/// Crates with kernels: their root denies unsafe code, and the kernel files allow it.
const KERNEL_CRATES: &[&str] = &["bls", "exec", "labrador", "rlnc", "stark"];

/// Names that a kernel's file or folder may have.
const INSTRUCTION_SETS: &[&str] = &["avx2", "avx512"];

/// A border to C.
struct Border {
    /// The begin of the paths of its files.
    path: &'static str,
    /// What it may import of its crate: whoever audits it reads this and nothing above it.
    below: &'static [&'static str],
}

/// Where points lie in memory that the system has mapped, for their huge pages.
const MAPPED: &str = "crates/bls/src/sums/vector/pages.rs";

const fn border(path: &'static str, below: &'static [&'static str]) -> Border {
    Border { path, below }
}

/// The borders: to the library behind the BLS scheme, and to those who call us from C.
const BORDERS: &[Border] = &[
    border("crates/bls/src/blst_ffi.rs", &["blst_ffi", "error"]),
    border("crates/bls/src/blst_ffi/", &["blst_ffi", "error"]),
    border("crates/capi/src/border/", &["border"]),
];

/// Crates whose root denies unsafe code for their border's sake, and has no kernels.
const BORDER_CRATES: &[&str] = &["capi"];

/// Checks every Rust file and every crate root.
pub(super) fn check(tree: &Tree, report: &mut Report) {
    for file in tree.rust() {
        if is_crate_root(&file.path) {
            check_root(file, report);
        }
        if let Some(border) = border_of(file) {
            check_imports(border, file, report);
        }
        if may_be_unsafe(file) {
            continue;
        }
        for (index, line) in file.source.code.lines().enumerate() {
            if find_words(line, "unsafe").next().is_some() {
                let message = "`unsafe` outside of a kernel: only files named after an instruction \
                               set (avx2, avx512) of a kernel crate, bls/src/blst_ffi, \
                               capi/src/border, and bls/src/sums/vector/pages.rs";
                report.error(file, index + 1, message);
            }
            let opens = ["allow", "expect", "warn"]
                .iter()
                .any(|level| line.contains(level));
            if opens && find_words(line, "unsafe_code").next().is_some() {
                report.error(
                    file,
                    index + 1,
                    "`unsafe_code` is allowed in kernel files only",
                );
            }
        }
    }
}

/// Whether cargo compiles the file as a crate of its own.
fn is_crate_root(path: &str) -> bool {
    matches!(path.rsplit_once("/src/"), Some((_, "lib.rs" | "main.rs")))
        || path.contains("/src/bin/")
}

fn may_be_unsafe(file: &File) -> bool {
    let in_kernel_crate = file
        .crate_folder()
        .is_some_and(|name| KERNEL_CRATES.contains(&name));
    let parts = || {
        file.path
            .split('/')
            .map(|part| part.trim_end_matches(".rs"))
    };
    let is_kernel = in_kernel_crate
        && file.path.contains("/src/")
        && parts().any(|part| INSTRUCTION_SETS.contains(&part));
    is_kernel || border_of(file).is_some() || file.path == MAPPED
}

fn border_of(file: &File) -> Option<&'static Border> {
    BORDERS
        .iter()
        .find(|border| file.path.starts_with(border.path))
}

fn check_imports(border: &Border, file: &File, report: &mut Report) {
    let below = border.below;
    for (index, line) in file.source.code.lines().enumerate() {
        for at in find_words(line, "crate::") {
            let path = &line[at + "crate::".len()..];
            let module = path
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .next();
            if !module.is_some_and(|module| below.contains(&module)) {
                let message = format!("a border to C imports {below:?} of its crate alone");
                report.error(file, index + 1, message);
            }
        }
    }
}

fn check_root(file: &File, report: &mut Report) {
    let is_kernel_crate = file
        .crate_folder()
        .is_some_and(|name| KERNEL_CRATES.contains(&name) || BORDER_CRATES.contains(&name));
    let forbids = file.source.code.contains("#![forbid(unsafe_code)]");
    let denies = file.source.code.contains("#![deny(unsafe_code)]");
    if is_kernel_crate && !(forbids || denies) {
        report.error(
            file,
            1,
            "the root of a crate with kernels or a border must have #![deny(unsafe_code)]",
        );
    } else if !is_kernel_crate && !forbids {
        report.error(
            file,
            1,
            "the root of a crate without kernels must have #![forbid(unsafe_code)]",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::errors;

    #[test]
    fn kernels_and_the_border_may_be_unsafe() {
        let good = [
            ("crates/bls/src/lib.rs", "#![deny(unsafe_code)]\nmod avx2;"),
            (
                "crates/bls/src/avx2.rs",
                "#![allow(unsafe_code)]\nfn f() { unsafe { g() } }",
            ),
            ("crates/bls/src/sum/avx512/tree.rs", "unsafe fn g() {}"),
            (
                "crates/bls/src/blst_ffi/point.rs",
                "fn f() { unsafe { g() } }",
            ),
            (MAPPED, "fn f() { unsafe { g() } }"),
            (
                "crates/capi/src/lib.rs",
                "#![deny(unsafe_code)]\nmod border;",
            ),
            (
                "crates/capi/src/border/mod.rs",
                "#![allow(unsafe_code)]\nuse super::border::x;\nunsafe extern \"C\" fn f() {}",
            ),
            (
                "crates/types/src/lib.rs",
                "#![forbid(unsafe_code)]\n// unsafe is a word here\n",
            ),
            ("crates/types/src/text.rs", "const WORD: &str = \"unsafe\";"),
        ];
        assert_eq!(errors(check, &good), Vec::<String>::new());
    }

    #[test]
    fn unsafe_elsewhere_is_found() {
        let bad = [
            ("crates/types/src/avx2.rs", "fn f() { unsafe { g() } }"),
            ("crates/bls/src/point.rs", "\nunsafe impl Send for X {}"),
            ("crates/bls/tests/avx2.rs", "fn f() { unsafe { g() } }"),
            ("crates/sim/src/avx2x.rs", "unsafe fn f() {}"),
            ("crates/bls/src/batch.rs", "#![allow(unsafe_code)]"),
            (
                "crates/bls/src/sums/vector/rows.rs",
                "fn f() { unsafe { g() } }",
            ),
            ("crates/capi/src/handles.rs", "unsafe fn f() {}"),
            ("crates/capi/src/border/x.rs", "use crate::handles::f;"),
        ];
        let found = errors(check, &bad);
        assert_eq!(found.len(), bad.len(), "{found:?}");
        assert!(
            found[1].starts_with("crates/bls/src/point.rs:2: "),
            "{found:?}"
        );
    }

    #[test]
    fn the_border_imports_nothing_above_it() {
        let path = "crates/bls/src/blst_ffi/curve.rs";
        let good = "use crate::error::DecodeError;\nuse super::field;";
        assert_eq!(errors(check, &[(path, good)]), Vec::<String>::new());
        for bad in ["use crate::sums::KernelField;", "use crate::{error, sums};"] {
            assert_eq!(errors(check, &[(path, bad)]).len(), 1, "{bad}");
        }
    }

    #[test]
    fn every_root_says_so() {
        assert_eq!(
            errors(
                check,
                &[("crates/types/src/lib.rs", "#![deny(unsafe_code)]")]
            )
            .len(),
            1
        );
        assert_eq!(
            errors(check, &[("crates/bls/src/lib.rs", "mod a;")]).len(),
            1
        );
        assert_eq!(
            errors(check, &[("crates/cli/src/main.rs", "fn main() {}")]).len(),
            1
        );
        assert_eq!(
            errors(
                check,
                &[("xtask/src/main.rs", "// #![forbid(unsafe_code)]")]
            )
            .len(),
            1
        );
    }
}
