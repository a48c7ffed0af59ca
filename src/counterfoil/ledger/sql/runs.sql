-- name: insert!
INSERT INTO runs (
    id, tenant_id, workspace_id, run_key, request_id, parent_run_id, source_run_id,
    lineage_root_id, attempt_no, subject_kind, subject_id, subject_version_id, status, cause,
    holder_id, fence, input_summary, input_cut, input_json, input_artifact_id, input_size,
    input_sha256, input_hash, input_hash_key, redacted_paths, output_summary, output_cut,
    result_json, result_artifact_id, result_size, result_sha256, error_code, error_message,
    created_at, started_at, ended_at, updated_at
) VALUES (
    :id, :tenant_id, :workspace_id, :run_key, :request_id, :parent_run_id, :source_run_id,
    :lineage_root_id, :attempt_no, :subject_kind, :subject_id, :subject_version_id, :status, '',
    :holder_id, :fence, :input_summary, :input_cut, :input_json, :input_artifact_id, :input_size,
    :input_sha256, :input_hash, :input_hash_key, :redacted_paths, '', 0,
    NULL, NULL, NULL, '', '', '',
    :now, NULL, NULL, :now
);

-- name: get
SELECT * FROM runs
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND id = :id;

-- name: with_prefix
SELECT * FROM runs
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
    AND substr(id, 1, length(:prefix)) = :prefix
ORDER BY id LIMIT 2;

-- name: last_of_lineage
SELECT MAX(attempt_no) FROM runs
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
    AND lineage_root_id = :lineage_root_id;

-- name: open_with_key
SELECT * FROM runs
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND run_key = :run_key
    AND status NOT IN ('succeeded', 'failed', 'canceled', 'expired');

-- name: newest
SELECT * FROM runs
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
ORDER BY created_at DESC, id DESC LIMIT :most;

-- name: take
UPDATE runs SET holder_id = :holder_id, fence = fence + 1, updated_at = :now
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND id = :id AND fence = :seen
RETURNING *;

-- name: move
UPDATE runs SET
    status = :target,
    cause = COALESCE(:cause, cause),
    holder_id = COALESCE(:holder_id, holder_id),
    output_summary = COALESCE(:output_summary, output_summary),
    output_cut = COALESCE(:output_cut, output_cut),
    result_json = CASE WHEN :result_sha256 IS NULL THEN result_json ELSE :result_json END,
    result_artifact_id = CASE WHEN :result_sha256 IS NULL THEN result_artifact_id ELSE :result_artifact_id END,
    result_size = CASE WHEN :result_sha256 IS NULL THEN result_size ELSE :result_size END,
    result_sha256 = COALESCE(:result_sha256, result_sha256),
    error_code = COALESCE(:error_code, error_code),
    error_message = COALESCE(:error_message, error_message),
    started_at = COALESCE(started_at, :started_at),
    ended_at = COALESCE(:ended_at, ended_at),
    updated_at = :now
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND id = :id
    AND status = :source AND fence = COALESCE(:fence, fence)
RETURNING *;

-- name: run_ids
SELECT DISTINCT id FROM runs
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id;
