-- name: insert
INSERT INTO run_steps (
    id, tenant_id, workspace_id, run_id, step_key, step_type, task_id, attempt_id, status,
    input_summary, output_summary, cut, result_json, result_artifact_id, result_size,
    result_sha256, record_hash, redacted_paths, error_code, error_message,
    created_at, started_at, ended_at, updated_at
) VALUES (
    :id, :tenant_id, :workspace_id, :run_id, :step_key, :step_type, :task_id, :attempt_id,
    :status, :input_summary, :output_summary, :cut, :result_json, :result_artifact_id,
    :result_size, :result_sha256, :record_hash, :redacted_paths, :error_code, :error_message,
    :now, :started_at, :ended_at, :now
)
ON CONFLICT (tenant_id, workspace_id, run_id, step_key) DO NOTHING
RETURNING id;

-- name: get
SELECT * FROM run_steps
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND run_id = :run_id
    AND step_key = :step_key;

-- name: of_run
SELECT * FROM run_steps
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND run_id = :run_id
ORDER BY created_at, step_key;

-- name: move
UPDATE run_steps SET
    status = :target,
    output_summary = COALESCE(:output_summary, output_summary),
    cut = COALESCE(:cut, cut),
    result_json = CASE WHEN :result_sha256 IS NULL THEN result_json ELSE :result_json END,
    result_artifact_id = CASE WHEN :result_sha256 IS NULL THEN result_artifact_id ELSE :result_artifact_id END,
    result_size = CASE WHEN :result_sha256 IS NULL THEN result_size ELSE :result_size END,
    result_sha256 = COALESCE(:result_sha256, result_sha256),
    record_hash = COALESCE(:record_hash, record_hash),
    redacted_paths = COALESCE(:redacted_paths, redacted_paths),
    error_code = COALESCE(:error_code, error_code),
    error_message = COALESCE(:error_message, error_message),
    started_at = COALESCE(started_at, :started_at),
    ended_at = COALESCE(:ended_at, ended_at),
    updated_at = :now
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND run_id = :run_id
    AND step_key = :step_key AND status = :source
RETURNING *;

-- name: run_ids
SELECT DISTINCT run_id FROM run_steps
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id;
