"""Every row of the threat model, from inside, and that each wall is one that something leans on."""

import pytest

from rows import BOTH, ROWS


def cases(users):
    """Each row with each user, named by its sentence."""
    return [
        pytest.param(row, user, id=f"{row.sentence} ({user})") for row in ROWS for user in users(row)
    ]


@pytest.mark.parametrize("row, user", cases(lambda row: BOTH))
def test_it_holds_that(shared, row, user):
    assert row.breaches(shared(), user) == []


@pytest.mark.parametrize("row, user", cases(lambda row: row.shown_as))
def test_each_wall_is_load_bearing(shared, row, user):
    """With its walls left out the same probe finds a breach: a test that cannot fail proves nothing."""
    if row.held_by:
        found = row.breaches(shared(row.held_by), user)
    else:
        found = row.breaches(shared(), user, row.imitation)
    assert found, f"nothing is found without {row.held_by or 'the imitation'}"
