//! Text in columns: aligned, at most [`WIDTH`] wide, colours only where they mean something.

use std::ops::Range;

/// No line is meant to be longer.
pub(crate) const WIDTH: usize = 100;

/// Header of a column that belongs to the one before it.
pub(crate) const VERDICT: &str = "verdict";

/// Columns of text under two header lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Field>>,
}

#[derive(Clone, Debug)]
struct Column {
    header: [String; 2],
    align: Align,
}

/// Where a column's text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// For words.
    Left,
    /// For numbers.
    Right,
}

/// Text of one row in one column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Field {
    text: String,
    tone: Tone,
}

/// What a colour may mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Nothing.
    #[default]
    Plain,
    /// A difference in favour of this cell.
    Good,
    /// A difference against it.
    Bad,
}

impl Table {
    /// Adds a column.
    pub(crate) fn column(mut self, above: &str, header: &str, align: Align) -> Self {
        self.columns.push(Column {
            header: [above.to_owned(), header.to_owned()],
            align,
        });
        self
    }

    /// Adds a row, one field for each column.
    pub(crate) fn row(&mut self, fields: Vec<Field>) {
        self.rows.push(fields);
    }

    /// The other table's columns to the right of these; both have the same rows and the first column in common.
    pub(crate) fn beside(&self, other: &Table) -> Table {
        let mut wide = self.clone();
        wide.columns.extend(other.columns.iter().skip(1).cloned());
        for (row, more) in wide.rows.iter_mut().zip(&other.rows) {
            row.extend(more.iter().skip(1).cloned());
        }
        wide
    }

    /// Width of its longest line.
    pub(crate) fn width(&self) -> usize {
        self.widths()
            .iter()
            .map(|width| width + 2)
            .sum::<usize>()
            .saturating_sub(2)
    }

    /// Its lines; a table too wide for a line continues below, each part with the first column.
    pub(crate) fn render(&self, colours: bool) -> String {
        let parts: Vec<String> = self
            .parts()
            .iter()
            .map(|part| part.render_whole(colours))
            .collect();
        parts.join("\n")
    }

    fn parts(&self) -> Vec<Table> {
        let mut parts: Vec<Table> = Vec::new();
        for piece in self.pieces() {
            match parts.last().map(|part| part.beside(&piece)) {
                Some(wider) if wider.width() <= WIDTH => {
                    parts.pop();
                    parts.push(wider);
                }
                _ => parts.push(piece),
            }
        }
        parts
    }

    /// The first column with each other one; a verdict stays with its ratio.
    fn pieces(&self) -> Vec<Table> {
        let mut starts: Vec<usize> = (1..self.columns.len())
            .filter(|at| *at == 1 || self.columns[*at].header[1] != VERDICT)
            .collect();
        starts.push(self.columns.len());
        starts
            .windows(2)
            .map(|ends| self.part(ends[0]..ends[1]))
            .collect()
    }

    fn part(&self, range: Range<usize>) -> Table {
        let columns = [&self.columns[..1], &self.columns[range.clone()]].concat();
        let rows = self
            .rows
            .iter()
            .map(|row| [&row[..1], &row[range.clone()]].concat())
            .collect();
        Table { columns, rows }
    }

    fn render_whole(&self, colours: bool) -> String {
        let widths = self.widths();
        let mut text = String::new();
        for line in 0..2 {
            let header = self
                .columns
                .iter()
                .map(|column| Field::from(column.header[line].as_str()));
            push_line(
                &mut text,
                &self.columns,
                &widths,
                header.collect::<Vec<_>>().as_slice(),
                false,
            );
        }
        for row in &self.rows {
            push_line(&mut text, &self.columns, &widths, row, colours);
        }
        text
    }

    fn widths(&self) -> Vec<usize> {
        let of = |at: usize, column: &Column| {
            let rows = self
                .rows
                .iter()
                .filter_map(|row| row.get(at))
                .map(|field| field.text.chars().count());
            rows.chain(column.header.iter().map(|header| header.chars().count()))
                .max()
                .unwrap_or(0)
        };
        self.columns
            .iter()
            .enumerate()
            .map(|(at, column)| of(at, column))
            .collect()
    }
}

impl Field {
    /// Text with a meaning.
    pub(crate) fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Field {
            text: text.into(),
            tone,
        }
    }
}

impl From<&str> for Field {
    fn from(text: &str) -> Self {
        Field::toned(text, Tone::Plain)
    }
}

impl From<String> for Field {
    fn from(text: String) -> Self {
        Field::toned(text, Tone::Plain)
    }
}

fn push_line(
    text: &mut String,
    columns: &[Column],
    widths: &[usize],
    fields: &[Field],
    colours: bool,
) {
    let mut line = String::new();
    for ((column, width), field) in columns.iter().zip(widths).zip(fields) {
        let space = " ".repeat(width.saturating_sub(field.text.chars().count()));
        let shown = paint(&field.text, if colours { field.tone } else { Tone::Plain });
        let placed = if column.align == Align::Left {
            format!("{shown}{space}")
        } else {
            format!("{space}{shown}")
        };
        line.push_str(&placed);
        line.push_str("  ");
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

fn paint(text: &str, tone: Tone) -> String {
    match tone {
        Tone::Plain => text.to_owned(),
        Tone::Good => format!("\u{1b}[32m{text}\u{1b}[0m"),
        Tone::Bad => format!("\u{1b}[31m{text}\u{1b}[0m"),
    }
}

/// A number with three significant digits.
pub(crate) fn three_digits(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.9995 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// One unit for a whole column, by its largest number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Unit {
    divisor: f64,
    suffix: &'static str,
}

impl Unit {
    /// The unit that suits the largest of these.
    pub(crate) fn for_values(values: impl Iterator<Item = f64>) -> Self {
        match values.fold(0.0, f64::max) {
            largest if largest >= 1e6 => Unit {
                divisor: 1e6,
                suffix: "M",
            },
            largest if largest >= 1e4 => Unit {
                divisor: 1e3,
                suffix: "k",
            },
            _ => Unit {
                divisor: 1.0,
                suffix: "",
            },
        }
    }

    /// The number in this unit.
    pub(crate) fn show(&self, value: f64) -> String {
        format!("{}{}", three_digits(value / self.divisor), self.suffix)
    }
}

/// Breaks text into lines of at most [`WIDTH`]; every line but the first is indented like the text after `mark`.
pub(crate) fn wrap(mark: &str, text: &str) -> String {
    broken(mark, text.split_whitespace(), " ")
}

/// Puts pieces that must not be broken one after the other, in lines of at most [`WIDTH`].
pub(crate) fn flow(pieces: &[String], between: &str) -> String {
    broken("", pieces.iter().map(String::as_str), between)
}

fn broken<'a>(mark: &str, pieces: impl Iterator<Item = &'a str>, between: &str) -> String {
    let indent = mark.chars().count();
    let (mut wrapped, mut column) = (mark.to_owned(), indent);
    for piece in pieces {
        let length = piece.chars().count();
        if column > indent && column + between.len() + length > WIDTH {
            wrapped.push('\n');
            wrapped.push_str(&" ".repeat(indent));
            column = indent;
        }
        if column > indent {
            wrapped.push_str(between);
            column += between.len();
        }
        wrapped.push_str(piece);
        column += length;
    }
    wrapped.push('\n');
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_significant_digits() {
        let shown: Vec<String> = [
            0.0, 0.0123, 0.999, 0.9996, 6.413, 9.996, 74.12, 99.96, 950.4,
        ]
        .map(three_digits)
        .to_vec();
        assert_eq!(
            shown,
            [
                "0.00", "0.012", "0.999", "1.00", "6.41", "10.0", "74.1", "100", "950"
            ]
        );
    }

    #[test]
    fn one_unit_per_column() {
        let unit = Unit::for_values([118_000.0, 9_000.0].into_iter());
        assert_eq!(
            (unit.show(118_000.0), unit.show(9_000.0)),
            ("118k".to_owned(), "9.00k".to_owned())
        );
        assert_eq!(Unit::for_values([900.0].into_iter()).show(900.0), "900");
    }

    #[test]
    fn columns_align_and_colours_do_not_count() {
        let mut table =
            Table::default()
                .column("", "cell", Align::Left)
                .column("rate", "/s", Align::Right);
        table.row(vec!["pool 2".into(), Field::toned("7", Tone::Good)]);
        assert_eq!(
            table.render(false),
            "        rate\ncell      /s\npool 2     7\n"
        );
        assert_eq!(
            table.render(true),
            "        rate\ncell      /s\npool 2     \u{1b}[32m7\u{1b}[0m\n"
        );
        assert_eq!(table.width(), 12);
    }

    #[test]
    fn a_table_too_wide_continues_below() {
        let mut table = Table::default().column("", "cell", Align::Left);
        for number in 0..4 {
            table = table
                .column("ratio", &number.to_string(), Align::Right)
                .column("", VERDICT, Align::Left);
        }
        let mut row = vec!["cell".repeat(10).into()];
        for _ in 0..4 {
            row.extend([Field::from("1.00 [1.00, 1.00]"), Field::from("faster")]);
        }
        table.row(row);
        let text = table.render(false);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH));
        assert_eq!(text.matches("cellcell").count(), 2 * 5);
        assert_eq!(text.matches("[1.00, 1.00]  faster").count(), 4);
    }

    #[test]
    fn wrapping_keeps_the_width() {
        let text = wrap("! ", &"word ".repeat(60));
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH));
        assert!(text.lines().nth(1).unwrap().starts_with("  word"));
    }
}
