//! Names the shared library as `install.sh` does.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let (major, minor) = (
        env!("CARGO_PKG_VERSION_MAJOR"),
        env!("CARGO_PKG_VERSION_MINOR"),
    );
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libalphorn.so.{major}.{minor}");
    }
}
