//! The example of a foreign client, run.

#[path = "../examples/embed.rs"]
mod embed;

#[test]
fn a_foreign_client_gets_its_results() {
    embed::main();
}
