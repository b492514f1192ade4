"""An API is added as docs/contributing.md says: one file with its family, and one function that makes it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from odradek.access.principal import SOMEBODY
from odradek.broker import FAMILIES, Node
from odradek.host.call import Call
from odradek.host.router import Router
from odradek.host.served import SERVED, Served
from odradek.sim import World
from odradek.tools import apis
from odradek.wire.messages.update_raft_voter_request import UpdateRaftVoterRequest
from odradek.wire.messages.update_raft_voter_response import UpdateRaftVoterResponse
from odradek.wire.registry import ApiKey

ONE_FILE = '''
from odradek.access.acls import AclOperation
from odradek.access.needs import allowed_on_cluster
from odradek.host.endpoint import endpoint
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.apis import UPDATE_RAFT_VOTER
from odradek.wire.messages.update_raft_voter_response import UpdateRaftVoterResponse


class VoterApi:
    """UpdateRaftVoter."""

    def __init__(self, node_id):
        self._node_id = node_id

    @endpoint(UPDATE_RAFT_VOTER, needs=allowed_on_cluster(AclOperation.CLUSTER_ACTION), left_out="voters")
    async def update_raft_voter(self, call):
        known = call.request.voter_id == self._node_id
        return UpdateRaftVoterResponse(error_code=ErrorCode.NONE if known else ErrorCode.VOTER_NOT_FOUND)
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (tmp_path / "voters.py").write_text(ONE_FILE, encoding="utf-8")
    spec = spec_from_file_location("voters", tmp_path / "voters.py")
    assert spec is not None
    assert spec.loader is not None
    made = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "voters", made)
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize(("voter_id", "error"), [(1, 0), (9, 127)])
def test_one_file_and_its_function_are_served_and_listed(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch, voter_id: int, error: int
) -> None:
    def voters() -> Callable[[Node], object]:
        return lambda node: module.VoterApi(node.node_id)

    monkeypatch.setitem(FAMILIES, "voters", voters)
    derived: dict[str, object] = {}
    exec(compile(apis.served_source(), "served.py", "exec"), derived)
    listed = derived["SERVED"]
    assert isinstance(listed, tuple)
    assert [each for each in map(tuple, listed) if each not in set(map(tuple, SERVED))] == [
        tuple(Served(ApiKey.UPDATE_RAFT_VOTER, "voters"))
    ]
    assert "| 82 | UpdateRaftVoter | 0 (internal) | CLUSTER_ACTION on the cluster |" in apis.apis_page()
    node = World().nodes[1]
    router = Router(node=node, apis=listed)
    handler = router.handler(ApiKey.UPDATE_RAFT_VOTER, 0, broker=True)
    assert handler is not None
    assert router.handler(ApiKey.UPDATE_RAFT_VOTER, 0, broker=False) is None
    asked = UpdateRaftVoterRequest(voter_id=voter_id)
    serving = handler.serve(Call(ApiKey.UPDATE_RAFT_VOTER, 0, 1, None, asked, "host", True, False, SOMEBODY))
    with pytest.raises(StopIteration) as answered:
        serving.send(None)
    assert isinstance(answered.value.value, UpdateRaftVoterResponse)
    assert error == answered.value.value.error_code
