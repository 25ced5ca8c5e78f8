"""Sites that crash and come back: PROP Figures 6 to 9 by hand, and what else may go wrong there."""

from tests.check.federations import Federation
from tests.check.log import message
from tests.check.test_federations import broken, only

from semcast.check import group_orders, judge, member_delivery, rollback

# -- PROP Figures 6 to 9: site c (p3) fails, and comes back ----------------------------------------

A, B, C, D, E = "p1", "p2", "p3", "p4", "p5"
FIRST = {"alpha": [A, B, C, D, E], "beta": [C, D, E], "gamma": [A, B]}
SECOND = {"alpha": [A, B, D, E], "beta": [D, E], "gamma": [A, B]}
BACK = {"alpha": [A, B, "p3.2", D, E], "beta": ["p3.2", D, E], "gamma": [A, B]}


class Figures:
    """Messages are called as in the paper; x is their source."""

    def __init__(self, recovery: str = "non-atomic") -> None:
        self.fed = Federation(FIRST, recovery, ["p9.1"])
        self.alpha = [self.fed.send("p9", "alpha") for _ in range(3)]
        self.beta = [self.fed.send("p9", "beta") for _ in range(3)]

    def until_c_fails(self) -> None:
        """Figure 6: histories when c fails."""
        (a1, a2, a3), (b1, b2, b3) = self.alpha, self.beta
        fed = self.fed
        for site in (A, B):
            fed.take(site, a1, a2, a3)
        fed.take(C, a1, a2, b1, b2, a3, b3)
        fed.take(D, a1, a2, b1)
        fed.take(E, a1, a2)
        fed.world("out", C)

    def catch_up(self) -> None:
        """Figures 7 and 8: d and e catch up under the old graph, then open the one without c;
        β2 and β3 come again from their source.
        """
        fed, (_, b2, b3) = self.fed, self.beta
        fed.take(E, self.beta[0], graph=1)
        fed.take(E, self.alpha[2], graph=1)
        fed.take(D, self.alpha[2], graph=1)
        fed.open(2, SECOND)
        for site in (D, E):
            fed.take(site, b2, b3)

    def come_back(self, *undone: str) -> None:
        """Figure 9: c is told what to undo, and delivers it in the order of the others."""
        fed = self.fed
        fed.recall("p3.2", C)
        fed.open(3, BACK, [A, B, "p3.2", D, E])
        fed.resume("p3.2", C, len(undone))
        fed.undo("p3.2", *undone)


def test_figure_8_those_who_went_on_agree_whatever_the_site_that_failed_delivered() -> None:
    """Site c has β2 before α3, and d has it after that; c is gone."""
    figures = Figures()
    figures.until_c_fails()
    figures.catch_up()
    assert broken(figures.fed) == []


def test_figure_8_if_nobody_may_go_on_c_is_out_of_order() -> None:
    """With the atomic recovery every life counts."""
    figures = Figures("atomic")
    figures.until_c_fails()
    figures.catch_up()
    assert "Multiple Group Order" in broken(figures.fed)


def test_figure_8_a_survivor_that_does_not_catch_up_lacks_messages() -> None:
    figures = Figures()
    figures.until_c_fails()
    figures.fed.open(2, SECOND)
    found = judge(figures.fed.journal, [member_delivery.PROPERTY]).violations
    lacks = {(one.node, one.messages[0]) for one in found}
    (_, _, a3), (b1, b2, b3) = figures.alpha, figures.beta
    assert lacks == {
        *((site, message(one)) for site in ("p4.1", "p5.1") for one in (a3, b2, b3)),
        ("p5.1", message(b1)),
    }


def test_figure_9_a_site_that_comes_back_undoes_the_tail_and_delivers_it_again() -> None:
    figures = Figures()
    figures.until_c_fails()
    figures.catch_up()
    (_, _, a3), (_, b2, b3) = figures.alpha, figures.beta
    figures.come_back(b3, a3, b2)
    figures.fed.take("p3.2", a3, b2, b3)
    assert broken(figures.fed) == []


def test_figure_9_a_site_that_undoes_too_little_is_out_of_order() -> None:
    """β2 stays before α3."""
    figures = Figures()
    figures.until_c_fails()
    figures.catch_up()
    b3 = figures.beta[2]
    figures.come_back(b3)
    figures.fed.take("p3.2", b3)
    assert broken(figures.fed) == ["Multiple Group Order", "Acyclic Order"]


def test_figure_9_what_is_undone_is_a_tail() -> None:
    figures = Figures()
    figures.until_c_fails()
    figures.catch_up()
    b2 = figures.beta[1]
    figures.come_back(b2)
    figures.fed.take("p3.2", b2)
    found = only(figures.fed, rollback.PROPERTY)
    assert found.text == "p3.2 undoes p9.1#5 and not p9.1#3, which p3.1 delivered after it"


def test_figure_9_what_the_survivors_agreed_on_is_delivered_again() -> None:
    figures = Figures()
    figures.until_c_fails()
    figures.catch_up()
    (_, _, a3), (_, b2, b3) = figures.alpha, figures.beta
    figures.come_back(b3, a3, b2)
    figures.fed.take("p3.2", b2, b3)
    found = only(figures.fed, member_delivery.PROPERTY)
    assert (found.node, found.messages[0]) == ("p3.2", message(a3))
    assert "although it undid it, and p" in found.text


def test_figure_9_what_others_got_only_while_it_was_away_it_need_not_deliver_again() -> None:
    """β2 and β3 came to d and e in the next graph, in which c was not: it has missed them."""
    figures = Figures()
    figures.until_c_fails()
    figures.catch_up()
    (_, _, a3), (_, b2, b3) = figures.alpha, figures.beta
    figures.come_back(b3, a3, b2)
    figures.fed.take("p3.2", a3)
    assert not judge(figures.fed.journal, [member_delivery.PROPERTY]).violations


def test_a_site_that_comes_back_is_told_before_it_delivers() -> None:
    figures = Figures()
    figures.until_c_fails()
    figures.catch_up()
    figures.fed.recall("p3.2", C)
    figures.fed.open(3, BACK)
    later = figures.fed.send("p9", "beta")
    for site in ("p3.2", D, E):
        figures.fed.take(site, later)
    found = only(figures.fed, rollback.PROPERTY)
    assert found.text == "p3.2 delivers p9.1#7, and was not told what to roll back of p3.1"


def test_a_site_undoes_as_much_as_it_was_told() -> None:
    figures = Figures()
    figures.until_c_fails()
    figures.catch_up()
    (_, _, a3), (_, b2, b3) = figures.alpha, figures.beta
    figures.fed.recall("p3.2", C)
    figures.fed.open(3, BACK, [A, B, "p3.2", D, E])
    figures.fed.resume("p3.2", C, 2)
    figures.fed.undo("p3.2", b3, a3, b2)
    figures.fed.take("p3.2", a3, b2, b3)
    found = only(figures.fed, rollback.PROPERTY)
    assert found.text == "p3.2 was told to undo 2 deliveries of former lives and undid 3"


def crashed_again(remembers: bool) -> Figures:
    """Site c crashes again when it is back, and has undone one message of three."""
    figures = Figures()
    figures.until_c_fails()
    figures.catch_up()
    fed = figures.fed
    fed.recall("p3.2", C)
    fed.resume("p3.2", C, 3)
    fed.open(3, BACK, [A, B, "p3.2", D, E])
    fed.undo("p3.2", figures.beta[2])
    fed.world("crash", "p3.2")
    if remembers:
        fed.recall("p3.3", "p3.2", 2)
        fed.resume("p3.3", "p3.2", 0)
    back = {name: ["p3.3" if at == "p3.2" else at for at in some] for name, some in BACK.items()}
    fed.open(4, back, [A, B, "p3.3", D, E])
    return figures


def test_what_one_life_was_told_a_later_one_may_undo() -> None:
    figures = crashed_again(remembers=True)
    (_, _, a3), (_, b2, b3) = figures.alpha, figures.beta
    figures.fed.undo("p3.3", a3, b2)
    figures.fed.take("p3.3", a3, b2, b3)
    assert broken(figures.fed) == []


def test_a_later_life_that_remembers_undoes_what_is_left() -> None:
    figures = crashed_again(remembers=True)
    figures.fed.take("p3.3", figures.beta[2])
    found = only(figures.fed, rollback.PROPERTY)
    assert found.text == "p3.3 was told to undo 3 deliveries of former lives and undid 1"


def test_a_later_life_that_has_forgotten_cannot_undo_anything() -> None:
    figures = crashed_again(remembers=False)
    figures.fed.take("p3.3", figures.beta[2])
    assert not judge(figures.fed.journal, [rollback.PROPERTY]).violations
    assert not judge(figures.fed.journal, [group_orders.MULTIPLE_GROUP_ORDER]).violations


def test_what_stands_of_a_former_life_is_not_delivered_again() -> None:
    for recovery in ("atomic", "non-atomic"):
        fed = Federation({"alpha": ["p1", "p2"]}, recovery)
        a = fed.send("p1", "alpha")
        fed.take("p1", a)
        fed.take("p2", a)
        fed.world("crash", "p2")
        fed.open(1 if recovery == "atomic" else 2, {"alpha": ["p1", "p2.2"]})
        fed.resume("p2.2", "p2", 0)
        fed.take("p2.2", a)
        assert only(fed, rollback.PROPERTY).node == "p2.2"


def test_a_site_that_others_went_on_without_is_not_asked_before_it_knows() -> None:
    """It delivers what only it has; the others open a graph without it."""
    fed = Federation({"alpha": ["p1", "p2", "p3"]}, sources=["p9.1"])
    a, b = fed.send("p9", "alpha"), fed.send("p1", "alpha")
    fed.take("p3", a, b)
    fed.open(2, {"alpha": ["p1", "p2"]})
    for site in ("p1", "p2"):
        fed.take(site, b, a)
    orders = [
        group_orders.MULTIPLE_SOURCE_ORDER,
        group_orders.MULTIPLE_GROUP_ORDER,
        group_orders.ACYCLIC_ORDER,
    ]
    assert not judge(fed.journal, orders).violations


def test_a_log_that_is_cut_off_may_lack_what_is_undone() -> None:
    """The killed life had no time to write down what it delivered last."""
    fed = Federation({"alpha": ["p1", "p2"]}, one_order=False)
    a = fed.send("p1", "alpha")
    fed.take("p1", a)
    fed.receive("p2", a)
    fed.world("crash", "p2")
    fed.open(2, {"alpha": ["p1", "p2.2"]})
    fed.undo("p2.2", a)
    fed.resume("p2.2", "p2", 1)
    fed.take("p2.2", a)
    assert broken(fed) == []


def test_a_life_that_was_in_no_graph_need_not_be_told_of() -> None:
    """It had begun to deliver again what counts, and crashed before it was in: what the next one is
    told of the life before it says all.
    """
    figures = Figures()
    figures.until_c_fails()
    figures.catch_up()
    fed, (_, b2, b3) = figures.fed, figures.beta
    a3 = figures.alpha[2]
    fed.recall("p3.2", C)
    fed.resume("p3.2", C, 3)
    fed.undo("p3.2", b3, a3, b2)
    fed.take("p3.2", a3, graph=1)
    fed.world("crash", "p3.2")
    fed.recall("p3.3", C)
    fed.resume("p3.3", C, 0)
    back = [A, B, "p3.3", D, E]
    fed.open(3, {**BACK, "alpha": back, "beta": ["p3.3", D, E]}, back)
    a4 = fed.send("p9", "alpha")
    for one in back:
        fed.take(one, a4)
    assert not judge(fed.journal, [rollback.PROPERTY]).violations
    asked = Figures()
    asked.until_c_fails()
    asked.catch_up()
    fed = asked.fed
    fed.recall("p3.2", C)
    fed.resume("p3.2", C, 3)
    fed.undo("p3.2", b3, a3, b2)
    fed.open(3, BACK, [A, B, "p3.2", D, E])
    fed.take("p3.2", a3, graph=1)
    fed.world("crash", "p3.2")
    fed.recall("p3.3", C)
    fed.open(4, {**BACK, "alpha": back, "beta": ["p3.3", D, E]}, back)
    fed.take("p3.3", fed.send("p9", "alpha"))
    assert only(fed, rollback.PROPERTY).node == "p3.3", "this one was in a graph"
