-- Settings by name: the value as in postgresql.conf; its amount in bytes or by number, NULL for words; whether this user
-- may change it with ALTER SYSTEM, which servers can forbid.
SELECT name, setting, current_setting(name) AS shown,
       CASE WHEN vartype IN ('integer', 'real') THEN setting::float8 * coalesce(
                pg_size_bytes(CASE WHEN unit ~ '^\d' THEN unit WHEN unit ~ 'B$' THEN '1' || unit END), 1) END AS amount,
       context, enumvals, source, sourcefile, pending_restart,
       has_parameter_privilege(name, 'ALTER SYSTEM')
           AND coalesce(current_setting('allow_alter_system', true), 'on') = 'on' AS alterable
FROM pg_settings WHERE name = ANY (%s)
