//! Arguments of the linker: the shared library's name, as `install.sh` gives it; for WebAssembly, exports that the
//! loader in JavaScript needs.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let (major, minor) = (
        env!("CARGO_PKG_VERSION_MAJOR"),
        env!("CARGO_PKG_VERSION_MINOR"),
    );
    let is = |variable: &str, value: &str| std::env::var(variable).is_ok_and(|set| set == value);
    if is("CARGO_CFG_TARGET_OS", "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libalphorn.so.{major}.{minor}");
    }
    if is("CARGO_CFG_TARGET_FAMILY", "wasm") {
        // `js/alphorn.mjs` lays arguments into memory of the library's own allocator. It calls what C runs before `main`
        // once: the linker would put that into each function otherwise.
        for name in ["malloc", "free", "__wasm_call_ctors"] {
            println!("cargo::rustc-cdylib-link-arg=--export={name}");
        }
    }
}
