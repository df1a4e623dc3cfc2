//! Has the crate compiled again when a migration is added: the macro that
//! embeds them only sees changes of those it already knows.

fn main() {
    println!("cargo::rerun-if-changed=migrations");
}
