//! The rates as a bar chart, written by hand: ours in colour, the limits in grey, readable on light and on dark ground.

use super::results::{RATES, Rate, Results, grouped};

const WIDTH: u64 = 860;
const LABELS: u64 = 420;
/// Room for the number behind the longest bar.
const NUMBERS: u64 = 80;
const ROW: u64 = 26;
const BAR: u64 = 16;
const TOP: u64 = 44;

/// The chart as SVG; none where nothing was measured.
pub fn rates(results: &Results) -> Option<String> {
    let rows: Vec<(&Rate, u64)> = RATES.iter().filter_map(|rate| Some((rate, results.median(rate.name)?))).collect();
    let most = rows.iter().map(|(_, value)| *value).max().filter(|most| *most > 0)?;
    let height = TOP + ROW * u64::try_from(rows.len()).ok()? + 12;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n\
         <title>Events per second, beside the limits measured in the same run</title>\n\
         <style>text {{ font: 13px system-ui, sans-serif; fill: #24292f }} .head {{ font-weight: 600 }} .ours {{ fill: #1a7f64 }} \
         .limit {{ fill: #9aa4ae }} @media (prefers-color-scheme: dark) {{ text {{ fill: #d7dde3 }} .ours {{ fill: #3fb68f }} \
         .limit {{ fill: #68737d }} }}</style>\n\
         <text class=\"head\" x=\"8\" y=\"24\">Events per second, beside the limits measured in the same run</text>\n"
    );
    for (row, (rate, value)) in (0..).zip(&rows) {
        let top = TOP + ROW * row;
        let text = top + BAR - 3;
        let width = ((WIDTH - LABELS - NUMBERS) * value / most).max(1);
        let class = if rate.is_limit { "limit" } else { "ours" };
        svg.push_str(&format!(
            "<text x=\"{}\" y=\"{text}\" text-anchor=\"end\">{}</text>\
             <rect class=\"{class}\" x=\"{LABELS}\" y=\"{top}\" width=\"{width}\" height=\"{BAR}\" rx=\"2\"/>\
             <text x=\"{}\" y=\"{text}\">{}</text>\n",
            LABELS - 8,
            rate.label,
            LABELS + width + 6,
            grouped(*value)
        ));
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_measured_rate_has_a_bar_and_no_label_breaks_the_markup() {
        assert!(rates(&Results::default()).is_none());
        let mut results = Results::default();
        for rate in &RATES {
            results.add(rate.name, 1000);
        }
        let svg = rates(&results).unwrap();
        assert_eq!(svg.matches("<rect").count(), RATES.len());
        assert_eq!(svg.matches("class=\"limit\"").count(), RATES.iter().filter(|rate| rate.is_limit).count());
        assert!(RATES.iter().all(|rate| !rate.label.contains(['<', '&', '|'])));
    }
}
