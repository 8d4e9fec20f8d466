//! Tables of plain text, as kubectl prints them.

/// Spaces between columns.
const GAP: usize = 3;

/// Rows under a header; every column is as wide as it must be.
pub fn render(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = header.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    let header: Vec<_> = header.iter().map(ToString::to_string).collect();
    for row in std::iter::once(&header).chain(rows) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width - cell.chars().count() + GAP));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_end_without_spaces() {
        let rows = [vec!["a".into(), "längste".into(), String::new()], vec!["bcdefg".into(), "x".into(), "y".into()]];
        let expected = "ID       TYPES     X\na        längste\nbcdefg   x         y\n";
        assert_eq!(render(&["ID", "TYPES", "X"], &rows), expected);
    }
}
