//! Helpers for optional fields of Kubernetes objects, where absent and empty mean the same. Empty values are written as
//! absent. So objects are small, and a field exists only if a layer set it.

/// Adds items to a list or entries to a map.
pub(super) fn extend<C, T>(field: &mut Option<C>, items: impl IntoIterator<Item = T>)
where
    C: Default + Extend<T>,
{
    let mut items = items.into_iter().peekable();
    if items.peek().is_some() {
        field.get_or_insert_default().extend(items);
    }
}

/// The items as a list or map.
pub(super) fn collect<C, T>(items: impl IntoIterator<Item = T>) -> Option<C>
where
    C: Default + Extend<T>,
{
    let mut field = None;
    extend(&mut field, items);
    field
}

/// Sets a text if it is absent or empty.
pub(super) fn set_if_empty(field: &mut Option<String>, value: &str) {
    if field.as_ref().is_none_or(String::is_empty) && !value.is_empty() {
        *field = Some(value.to_owned());
    }
}
