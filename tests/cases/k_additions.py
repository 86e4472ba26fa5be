"""Additions to K: NumPy's atan2, where, sort, argsort, top_k, matmul, einsum; segments."""

from __future__ import annotations

import numpy as np

from cases.record import bools, case, distinct, floats, ints, positive, values

case(
    "atan2", floats(2, 3, low=0.25), positive(3), oracle=np.arctan2, smooth=True,
    errors=[
        ([floats(2, 3), floats(4)], {}, ValueError, r"K\.atan2: .*\(2, 3\) and \(4,\)"),
        ([None, floats(3)], {}, TypeError, r"K\.atan2: "),
    ],
)  # fmt: skip
case("atan2", ints(4, low=-2, high=3), ints(4, low=-2), id="int", oracle=np.arctan2)
case("atan2", floats(2, 3), 1.0, id="number", oracle=np.arctan2, smooth=True)

case(
    "where", bools(2, 1), floats(3), floats(2, 3), oracle=np.where, smooth=True, batch=False,
    errors=[([bools(2), floats(3), floats(3)], {}, ValueError, r"K\.where: .*\(2,\)")],
)  # fmt: skip
case("where", ints(2, 3, high=2), floats(2, 3), 0.0, id="ints", oracle=np.where)
case("where", bools(3), ints(3), ints(3), id="of-ints", oracle=np.where)

for axis in (-1, 0, 1):
    case("sort", distinct(3, 4, 2), id=str(axis), axis=axis, smooth=True,
         oracle=lambda x, axis: np.sort(x, axis))  # fmt: skip
    case("argsort", distinct(3, 4, 2), id=str(axis), axis=axis, grad=False,
         oracle=lambda x, axis: np.argsort(x, axis, kind="stable"))  # fmt: skip
MIXED = [[2.0, np.nan, 1.0, 2.0, -np.inf, 1.0]]
case(
    "sort", values(MIXED), id="not-finite", grad=False, oracle=np.sort,
    errors=[
        ([floats(2, 3)], {"axis": 2}, ValueError, r"K\.sort: axis"),
        ([floats()], {}, ValueError, r"K\.sort: "),
        ([floats(2, 3)], {"axis": "last"}, TypeError, r"K\.sort: axis"),
    ],
)  # fmt: skip
case("sort", bools(7), id="bool", oracle=np.sort, batch=False)
case(
    "argsort", values(MIXED), id="not-finite", grad=False,
    oracle=lambda x: np.argsort(x, kind="stable"),
    errors=[([floats(2, 3)], {"axis": -3}, ValueError, r"K\.argsort: axis")],
)  # fmt: skip


def largest(x: np.ndarray, k: int) -> list[np.ndarray]:
    order = np.argsort(-x, axis=-1, kind="stable")[..., :k]
    return [np.take_along_axis(x, order, -1), order.astype("int32")]


case(
    "top_k", distinct(2, 3, 5), 3, oracle=largest,
    errors=[
        ([floats(2, 3), 4], {}, ValueError, r"K\.top_k: .*4"),
        ([floats(2, 3), -1], {}, ValueError, r"K\.top_k: "),
        ([floats(2, 3), 1.5], {}, TypeError, r"K\.top_k: "),
        ([bools(2, 3), 1], {}, TypeError, r"K\.top_k: .*bool"),
    ],
)  # fmt: skip
case("top_k", ints(4, 6, high=4), 2, id="int", oracle=largest)

for x_shape, y_shape in (
    ((2, 3), (3, 4)), ((5, 2, 3), (5, 3, 4)), ((5, 2, 3), (3, 4)), ((2, 1, 2, 3), (4, 3, 2)),
    ((3,), (3, 2)), ((2, 3), (3,)), ((3,), (3,)),
):  # fmt: skip
    case(
        "matmul", floats(*x_shape), floats(*y_shape), id=f"{x_shape}-{y_shape}".replace(" ", ""),
        oracle=np.matmul, smooth=True, batch=(0,) if len(x_shape) > 1 else False,
        errors=[
            ([floats(2, 3), floats(4, 2)], {}, ValueError, r"K\.matmul: .*3 columns meet 4 rows"),
            ([floats(2, 3), floats()], {}, ValueError, r"K\.matmul: .*at least one axis"),
        ] if len(x_shape) == 4 else [],
    )  # fmt: skip

SUMS = {
    "ij,jk->ik": [(2, 3), (3, 4)],
    "ij,jk": [(2, 3), (3, 4)],
    "bij,bkj->bik": [(2, 3, 4), (2, 5, 4)],
    "...i,ij->...j": [(2, 2, 3), (3, 4)],
    "i,j->ij": [(2,), (3,)],
    "ij->ji": [(2, 3)],
    "ii->i": [(3, 3)],
    "ii": [(3, 3)],
    "ij,jk,kl,l->i": [(2, 3), (3, 4), (4, 2), (2,)],
    "abc,cd,abd->": [(2, 3, 4), (4, 2), (2, 3, 2)],
}
for subscripts, shapes in SUMS.items():
    case(
        "einsum", subscripts, *[floats(*shape) for shape in shapes], id=subscripts,
        oracle=np.einsum, smooth=True, batch=False,
    )  # fmt: skip
case(
    "einsum", "ij,jk->ik", ints(2, 3), ints(3, 4), id="int", oracle=np.einsum,
    errors=[
        (["ij,jk->ik", floats(2, 3)], {}, ValueError, r"K\.einsum: .*2 terms for 1 operands"),
        (["ij,jk->ik", floats(2, 3), floats(4, 2)], {}, ValueError, r"K\.einsum: "),
        (["ijk", floats(2, 3)], {}, ValueError, r"K\.einsum: .*'ijk'"),
        (["ij->il", floats(2, 3)], {}, ValueError, r"K\.einsum: "),
        (["ij"], {}, ValueError, r"K\.einsum: .*at least one operand"),
        ([floats(2, 3)], {}, TypeError, r"K\.einsum: subscripts"),
    ],
)  # fmt: skip


def in_segments(start: float, by: np.ufunc):
    def oracle(data, ids, number):
        found = np.full((number, *data.shape[np.ndim(ids) :]), start, data.dtype)
        ids = np.asarray(ids)
        inside = (ids >= 0) & (ids < number)
        by.at(found, ids[inside], data[inside])
        return found

    return oracle


SEGMENTS = {"segment_sum": in_segments(0, np.add), "segment_max": in_segments(-np.inf, np.maximum)}
for name, oracle in SEGMENTS.items():
    case(
        name, distinct(7, 3), values([2, 0, 2, 5, 0, -1, 4]), 5, oracle=oracle, batch=False,
        grad=name == "segment_sum",  # There is no difference of infinite numbers.
        errors=[
            ([floats(3, 2), values([0, 1]), 2], {}, ValueError, rf"K\.{name}: .*\(2,\).*\(3, 2\)"),
            ([floats(3), values(1), 2], {}, ValueError, rf"K\.{name}: .*one at least"),
            ([floats(3), floats(3), 2], {}, TypeError, rf"K\.{name}: segment_ids"),
            ([bools(3), values([0, 1, 0]), 2], {}, TypeError, rf"K\.{name}: data"),
            ([floats(3), values([0, 1, 0]), -1], {}, ValueError, rf"K\.{name}: num_segments"),
            ([floats(3), values([0, 1, 0]), 1.5], {}, TypeError, rf"K\.{name}: num_segments"),
            ([floats(3), values([0, 1, 0]), floats()], {}, TypeError, rf"K\.{name}: num_segments"),
        ],
    )  # fmt: skip
    case(name, distinct(6), values([3, 1, 1, 2, 0, 9]), 4, id="vector", oracle=oracle, smooth=True,
         batch=False)  # fmt: skip
    case(name, distinct(2, 3, 2), values([[1, 0, 1], [2, 1, -4]]), 3, id="matrix", oracle=oracle,
         smooth=True, batch=False)  # fmt: skip
    case(name, distinct(0, 2), values(np.zeros(0, "int32")), 2, id="empty", oracle=oracle,
         batch=False, grad=name == "segment_sum")  # fmt: skip
    case(name, floats(3, 2), values([2**40, 1, -(2**40)], "int64"), 2, id="far", oracle=oracle,
         batch=False, grad=name == "segment_sum")  # fmt: skip
    case(name, floats(3, 2), [1, 0, 1], 0, id="none", oracle=oracle, batch=False)
    case(name, floats(600, 9), ints(600, high=40), 38, id="large", oracle=oracle, batch=False,
         grad=False)  # fmt: skip
    case(
        name, distinct(4, 2), values([1, 0, 1, 2]), floats(3, 1), id="open-number", smooth=True,
        fn=lambda K, data, ids, x, name=name: getattr(K, name)(data, ids, K.shape(x)[0]),
        oracle=lambda data, ids, x, oracle=oracle: oracle(data, ids, 3), batch=False,
        grad=(0,),
    )  # fmt: skip
case("segment_sum", ints(5, 2), values([1, 1, 0, 3, -1]), 3, id="int", batch=False,
     oracle=SEGMENTS["segment_sum"])  # fmt: skip
case("segment_max", ints(5, 2), values([1, 1, 0, 3, -1]), 3, id="int", batch=False,
     oracle=in_segments(np.iinfo("int32").min, np.maximum))  # fmt: skip
