//! `sqlx::migrate!` embeds `migrations/`; without this line cargo would not see a new file there.
fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
