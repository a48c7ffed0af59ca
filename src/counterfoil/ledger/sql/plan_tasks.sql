-- name: insert!
INSERT INTO plan_tasks (
    tenant_id, workspace_id, run_id, task_id, position, title, spec_sha256, status, accepted,
    reason, candidate, merged_commit, created_at, updated_at
) VALUES (
    :tenant_id, :workspace_id, :run_id, :task_id, :position, :title, :spec_sha256, :status,
    :accepted, :reason, '', '', :now, :now
);

-- name: get
SELECT * FROM plan_tasks
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND run_id = :run_id
    AND task_id = :task_id;

-- name: of_run
SELECT * FROM plan_tasks
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND run_id = :run_id
ORDER BY position;

-- name: move
UPDATE plan_tasks SET
    status = :target,
    accepted = COALESCE(:accepted, accepted),
    reason = COALESCE(:reason, reason),
    candidate = COALESCE(:candidate, candidate),
    merged_commit = COALESCE(:merged_commit, merged_commit),
    updated_at = :now
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND run_id = :run_id
    AND task_id = :task_id AND status = :source
RETURNING *;

-- name: run_ids
SELECT DISTINCT run_id FROM plan_tasks
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id;
