-- What `era5 doctor` knows of a server besides single settings. A column whose name is that of a finding is NULL or false
-- unless it is found. pg_settings omits what the user may not see; current_setting would fail.
SELECT pg_backend_pid() AS pid, session_user::text AS session_user, current_database()::text AS database,
       CASE WHEN inet_server_addr() IS NOT NULL THEN inet_client_port() END AS client_port,
       (SELECT setting FROM pg_settings WHERE name = 'data_directory') AS data_folder,
       (SELECT rolname::text FROM pg_roles WHERE rolname = session_user AND rolsuper) AS superuser,
       pg_is_in_recovery() AS standby,
       nullif(concat_ws('; ',
           (SELECT count(*) || ' connected (pg_stat_replication)' FROM pg_stat_replication HAVING count(*) > 0),
           (SELECT 'replication slots ' || string_agg(slot_name, ', ' ORDER BY slot_name) FROM pg_replication_slots)
       ), '') AS replicas,
       (SELECT string_agg(name, ', ' ORDER BY name) FROM pg_settings WHERE pending_restart) AS pending,
       requested > timed AND requested >= 10 AS checkpoints, requested, timed,
       (SELECT coalesce(
                   -- One literal a name: 'a, b' would be a single library, and the server would not start.
                   (SELECT 'ALTER SYSTEM SET shared_preload_libraries = ' || string_agg(
                               quote_literal(part), ', ' ORDER BY number) || ';'
                    FROM pg_settings,
                         unnest(string_to_array(setting, ',') || ARRAY['timescaledb']) WITH ORDINALITY u (raw, number),
                         trim(both ' "' from raw) part
                    WHERE name = 'shared_preload_libraries' AND part <> ''),
                   'Let an administrator add timescaledb to shared_preload_libraries,')
        WHERE EXISTS (SELECT FROM pg_available_extensions WHERE name = 'timescaledb')
          AND current_setting('timescaledb.license', true) IS NULL) AS not_loaded,
       -- Of the extension or, without it, the one that would be created.
       (SELECT coalesce(installed_version, default_version) FROM pg_available_extensions
        WHERE name = 'timescaledb' AND current_setting('timescaledb.license', true) <> 'apache'
          AND regexp_match(coalesce(installed_version, default_version), '^(\d+)\.(\d+)(?:\.(\d+))?')::int[]
              < ARRAY[2, 29, 2]) AS faulty
FROM ({checkpoints}) c (timed, requested)
