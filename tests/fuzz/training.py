"""Updates at the end of a random program: of any variable, and steps of optimizers."""

from __future__ import annotations

from fuzz.writer import LIMITS, Var, Writer


def train(w: Writer) -> None:
    """Draw updates."""
    taken: set[str] = set()
    if w.chance(30) and not w.wild:
        rate = w.pick(("0.1", "0.01", "a variable", "a variable"))
        if rate == "a variable":
            rate = str(w.input((), w.main))
        steps = [_loss(w) for _ in range(w.between(1, 2))]
        for v, g in steps:
            if v.name not in taken:
                taken.add(v.name)
                w.program.updates += RULES[w.below(len(RULES))](w, v, g, rate)
    for v in w.variables:
        new = [u.name for u in w.pool if u.shape == v.shape and u.dtype == v.dtype and u is not v]
        if (
            v.name not in taken
            and new
            and w.chance(30)
            and all(v.name != p for p, _ in w.program.updates)
        ):
            w.program.updates.append((v.name, w.pick(new)))


def _loss(w: Writer) -> tuple[Var, str]:
    """A variable, and the name of the gradient of a loss by it."""
    small = [v for v in w.variables if v.dtype in ("float32", "float64", "float16") and v.ndim]
    if small and w.chance(60):
        v = w.pick(small)
    else:
        size = w.pick(LIMITS[: 5 if w.chance(80) else None]) + w.between(-1, 1)
        shape = w.pick([(n, size // n) for n in (1, 2, 3, 32)] + [(size,)])
        dtype = w.pick(("float32", "float64"))
        value = f"np.random.default_rng({w.below(99)}).normal(0, 1, {shape}).astype({dtype!r})"
        name = w.line("v", f"K.variable({value}, {dtype!r})")
        v = Var(name, shape, dtype, w.places[name])
    factor = w.tensor(
        "float", where=lambda t: t.shape == () and t.dtype == v.dtype, shape=lambda: ()
    )
    kind = w.pick(
        (
            f"K.mean(K.square({v} - 1)) * {factor}",
            f"K.sum(K.tanh({v})) + {factor}",
            f"K.sum({v} * {factor})",
        )
    )
    y = w.line("t", kind)
    return v, w.line("t", f"K.gradients({y}, [{v}])[0]")


Pairs = list[tuple[str, str]]


def _zeros(w: Writer, v: Var) -> str:
    return w.line("v", f"K.zeros({v.shape}, {v.dtype!r})")


def descent(w: Writer, v: Var, g: str, rate: str) -> Pairs:
    return [
        (
            str(v),
            w.line(
                "t",
                w.pick(
                    (f"{v} - {rate} * {g}", f"{v} + -{rate} * {g}", f"{v} - {g} * {rate} * 0.5")
                ),
            ),
        )
    ]


def momentum(w: Writer, v: Var, g: str, rate: str) -> Pairs:
    m = _zeros(w, v)
    new = w.line("t", w.pick((f"0.9 * {m} - {rate} * {g}", f"{m} * 0.9 - {g} * {rate}")))
    after = w.pick((f"{v} + {new}", f"{v} + 0.9 * {new} - {rate} * {g}"))
    return [(m, new), (str(v), w.line("t", after))]


def adam(w: Writer, v: Var, g: str, rate: str) -> Pairs:
    m, s = _zeros(w, v), _zeros(w, v)
    new_m = w.line("t", w.pick((f"0.9 * {m} + (1.0 - 0.9) * {g}", f"{m} + 0.1 * ({g} - {m})")))
    new_s = w.line("t", f"0.999 * {s} + 0.001 * K.square({g})")
    after = w.line("t", f"{v} - {rate} * {new_m} / (K.sqrt({new_s}) + 1e-7)")
    pairs = [(m, new_m), (s, new_s), (str(v), after)]
    return pairs[:: w.pick((1, -1))]


def rmsprop(w: Writer, v: Var, g: str, rate: str) -> Pairs:
    s = _zeros(w, v)
    new = w.line("t", f"0.9 * {s} + 0.1 * K.square({g})")
    return [(s, new), (str(v), w.line("t", f"{v} - {rate} * {g} / (K.sqrt({new}) + 1e-7)"))]


RULES = (descent, momentum, adam, rmsprop)
