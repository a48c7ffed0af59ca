-- name: insert!
INSERT INTO attempts (
    id, tenant_id, workspace_id, run_id, task_id, phase, ordinal, status, outcome, end_cause,
    error_class, message, agent, session, holder_id, fence, base, candidate, tree, folder,
    worktree, exit_json, report_json, duration_ms, created_at, started_at, ended_at, updated_at
) VALUES (
    :id, :tenant_id, :workspace_id, :run_id, :task_id, :phase, :ordinal, :status, '', '',
    '', '', :agent, '', :holder_id, :fence, :base, :candidate, '', :folder,
    :worktree, NULL, NULL, NULL, :now, NULL, NULL, :now
);

-- name: get
SELECT * FROM attempts
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND id = :id;

-- name: of_run
SELECT * FROM attempts
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND run_id = :run_id
ORDER BY rowid;

-- name: move
UPDATE attempts SET
    status = :target,
    outcome = COALESCE(:outcome, outcome),
    end_cause = COALESCE(:end_cause, end_cause),
    error_class = COALESCE(:error_class, error_class),
    message = COALESCE(:message, message),
    session = COALESCE(:session, session),
    holder_id = COALESCE(:holder_id, holder_id),
    candidate = COALESCE(:candidate, candidate),
    tree = COALESCE(:tree, tree),
    exit_json = COALESCE(:exit_json, exit_json),
    report_json = COALESCE(:report_json, report_json),
    duration_ms = COALESCE(:duration_ms, duration_ms),
    started_at = COALESCE(started_at, :started_at),
    ended_at = COALESCE(:ended_at, ended_at),
    updated_at = :now
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND id = :id
    AND status = :source AND fence = COALESCE(:fence, fence)
RETURNING *;

-- name: hand_over
UPDATE attempts SET holder_id = :holder_id, updated_at = :now
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND id = :id
    AND status = :source AND fence = :fence
RETURNING *;

-- name: run_ids
SELECT DISTINCT run_id FROM attempts
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id;
