-- name: insert!
INSERT INTO gate_results (
    id, tenant_id, workspace_id, run_id, task_id, attempt_id, tree, gate, environment, result,
    fail_class, command, cwd, exit_code, duration_ms, fingerprint, output_artifact_id, created_at
) VALUES (
    :id, :tenant_id, :workspace_id, :run_id, :task_id, :attempt_id, :tree, :gate, :environment,
    :result, :fail_class, :command, :cwd, :exit_code, :duration_ms, :fingerprint,
    :output_artifact_id, :now
);

-- name: passed
SELECT * FROM gate_results
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND run_id = :run_id
    AND tree = :tree AND gate = :gate AND environment = :environment AND result = 'pass'
LIMIT 1;

-- name: of_run
SELECT * FROM gate_results
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND run_id = :run_id
ORDER BY rowid;

-- name: run_ids
SELECT DISTINCT run_id FROM gate_results
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id;
