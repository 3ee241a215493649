-- The lake's catalog, in the form that pyiceberg (SqlCatalog) and Iceberg for Java (JdbcCatalog) share.

CREATE TABLE IF NOT EXISTS public.iceberg_tables (
    catalog_name                varchar(255) NOT NULL,
    table_namespace             varchar(255) NOT NULL,
    table_name                  varchar(255) NOT NULL,
    metadata_location           varchar(1000),
    previous_metadata_location  varchar(1000),
    iceberg_type                varchar(5),
    PRIMARY KEY (catalog_name, table_namespace, table_name)
);

COMMENT ON TABLE public.iceberg_tables IS
    'Iceberg tables, and the file that says what each holds now; that of era5 is replaced together with the ledger';

CREATE TABLE IF NOT EXISTS public.iceberg_namespace_properties (
    catalog_name    varchar(255) NOT NULL,
    namespace       varchar(255) NOT NULL,
    property_key    varchar(255) NOT NULL,
    property_value  varchar(1000),
    PRIMARY KEY (catalog_name, namespace, property_key)
);

COMMENT ON TABLE public.iceberg_namespace_properties IS 'Namespaces of Iceberg tables';

INSERT INTO public.iceberg_namespace_properties VALUES ('era5', '{schema}', 'exists', 'true') ON CONFLICT DO NOTHING;
