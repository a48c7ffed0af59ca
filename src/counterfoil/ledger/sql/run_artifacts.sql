-- name: insert!
INSERT INTO run_artifacts (
    id, tenant_id, workspace_id, run_id, step_id, attempt_id, type, mime, size_bytes, sha256,
    storage_key, meta, created_at
) VALUES (
    :id, :tenant_id, :workspace_id, :run_id, :step_id, :attempt_id, :type, :mime, :size_bytes,
    :sha256, :storage_key, :meta, :now
);

-- name: get
SELECT * FROM run_artifacts
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND run_id = :run_id AND id = :id;

-- name: of_run
SELECT * FROM run_artifacts
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND run_id = :run_id
ORDER BY rowid;

-- name: run_ids
SELECT DISTINCT run_id FROM run_artifacts
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id;
