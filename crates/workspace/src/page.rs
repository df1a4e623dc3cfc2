//! Lists come in pages, each with the cursor of the next.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::problem::Problem;

/// Most entries of one page.
const MOST: u32 = 200;
/// Entries of a page when nobody says how many.
const USUAL: u32 = 50;

/// Which page of a list is asked for.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// How many entries at most: 1 to 200, 50 unless said.
    #[param(minimum = 1, maximum = 200)]
    pub(crate) limit: Option<u32>,
    /// The `nextCursor` of the page before.
    pub(crate) cursor: Option<String>,
}

/// One page of a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Page<T> {
    /// The entries.
    pub(crate) items: Vec<T>,
    /// Where the next page starts; null on the last one.
    pub(crate) next_cursor: Option<String>,
}

impl PageQuery {
    /// How many entries are wanted.
    pub(crate) fn limit(&self) -> Result<u32, Problem> {
        let limit = self.limit.unwrap_or(USUAL);
        if (1..=MOST).contains(&limit) {
            Ok(limit)
        } else {
            Err(Problem::bad_field("limit", format!("limit is 1 to {MOST}, not {limit}")))
        }
    }
}

impl<T> Page<T> {
    /// A page out of one entry more than `limit`, which tells whether there is
    /// a next page; `cursor_of` names an entry.
    pub(crate) fn cut(mut items: Vec<T>, limit: u32, cursor_of: impl Fn(&T) -> String) -> Page<T> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = items.len() > limit;
        items.truncate(limit);
        let next_cursor = if more { items.last().map(cursor_of) } else { None };
        Page { items, next_cursor }
    }
}

#[cfg(test)]
mod tests {
    use super::{Page, PageQuery};

    #[test]
    fn a_page_with_something_after_it_names_its_last_entry() {
        let page = Page::cut(vec![1, 2, 3], 2, i32::to_string);
        assert_eq!((page.items, page.next_cursor.as_deref()), (vec![1, 2], Some("2")));
        let page = Page::cut(vec![1, 2], 2, i32::to_string);
        assert_eq!((page.items, page.next_cursor), (vec![1, 2], None));
    }

    #[test]
    fn a_page_is_neither_empty_nor_endless() {
        let limit = |limit| PageQuery { limit, cursor: None }.limit().ok();
        assert_eq!((limit(None), limit(Some(1)), limit(Some(200))), (Some(50), Some(1), Some(200)));
        assert_eq!((limit(Some(0)), limit(Some(201))), (None, None));
    }
}
