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

/// As [`render`], in lines of at most `width` letters, so the longest column should be the last.
pub fn render_within(header: &[&str], rows: &[Vec<String>], width: usize) -> String {
    render(header, rows).lines().map(|line| cut(line, width) + "\n").collect()
}

/// A text of at most `width` letters; one that was longer ends with a sign of it.
pub fn cut(text: &str, width: usize) -> String {
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
    fn what_is_too_long_ends_with_a_sign_of_it() {
        assert_eq!(cut("hello", 5), "hello");
        assert_eq!(cut("hello there", 7), "hello…");
        assert_eq!(cut("größer", 4), "grö…");
        assert_eq!(cut("x", 0), "");
        let rows = [vec!["a".into(), "a long reason".into()]];
        assert_eq!(render_within(&["N", "WHY"], &rows, 8), "N   WHY\na   a l…\n");
    }

    #[test]
    fn columns_line_up_and_lines_end_without_spaces() {
        let rows = [vec!["a".into(), "längste".into(), String::new()], vec!["bcdefg".into(), "x".into(), "y".into()]];
        let expected = "ID       TYPES     X\na        längste\nbcdefg   x         y\n";
        assert_eq!(render(&["ID", "TYPES", "X"], &rows), expected);
    }
}
