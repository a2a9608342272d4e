//! A sheet: one table of a report, before anybody decides whether it becomes text or Markdown.

/// A table with a headline and a sentence below it.
pub struct Sheet {
    pub title: &'static str,
    pub note: &'static str,
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
}
