//! Tables of plain text with aligned columns, as kubectl prints them.

use super::printable::printable;

/// Spaces between two columns, as in kubectl.
const GAP: usize = 3;

/// A header and rows. Every column is as wide as its widest cell. Cells may be texts of others.
pub fn render(header: &[&str], rows: &[Vec<String>]) -> String {
    // Before the widths are measured: a code is longer than its character.
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| printable(cell).into_owned()).collect()).collect();
    let mut widths: Vec<usize> = header.iter().map(|cell| cell.chars().count()).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    let header: Vec<_> = header.iter().map(ToString::to_string).collect();
    for row in std::iter::once(&header).chain(&rows) {
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

/// As [`render`], but lines are truncated to `width` characters. The widest column should therefore be the last.
pub fn render_truncated(header: &[&str], rows: &[Vec<String>], width: usize) -> String {
    render(header, rows).lines().map(|line| truncate(line, width) + "\n").collect()
}

/// At most `width` characters of a text. A truncated text ends with `…`.
pub fn truncate(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    let mut kept = kept.trim_end().to_owned();
    if width > 0 {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truncated_text_ends_with_an_ellipsis() {
        assert_eq!(truncate("hello", 5), "hello");
        assert_eq!(truncate("hello there", 7), "hello…");
        assert_eq!(truncate("größer", 4), "grö…");
        assert_eq!(truncate("x", 0), "");
        let rows = [vec!["a".into(), "a long reason".into()]];
        assert_eq!(render_truncated(&["N", "WHY"], &rows, 8), "N   WHY\na   a l…\n");
    }

    #[test]
    fn a_cell_cannot_control_the_terminal() {
        let rows = [vec!["\x1b[2Ka".into(), "x".into()]];
        assert_eq!(render(&["NAME", "X"], &rows), "NAME         X\n\\u001b[2Ka   x\n");
    }

    #[test]
    fn columns_line_up_and_lines_end_without_spaces() {
        let rows = [vec!["a".into(), "längste".into(), String::new()], vec!["bcdefg".into(), "x".into(), "y".into()]];
        let expected = "ID       TYPES     X\na        längste\nbcdefg   x         y\n";
        assert_eq!(render(&["ID", "TYPES", "X"], &rows), expected);
    }
}
