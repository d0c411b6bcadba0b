-- One row per table, and one per column of it: what it holds. The models alone decide what is in here, no log does.
-- grain: schema_name, table_name, column_name?
-- check: comment <> ''
-- check: sort_key >= 1

select
    -- Schema: raw, staging, intermediate or marts.
    null::varchar as schema_name,
    -- Table or view.
    null::varchar as table_name,
    -- Column; NULL in the row about the table itself.
    null::varchar as column_name,
    -- What one row of the table is, or what the column holds.
    null::varchar as comment,
    -- Column it refers to, as `schema.table.column`; NULL where none is stated.
    null::varchar as reference,
    -- Order to read the rows in: by schema, table and column, each table before its columns; from 1.
    null::bigint as sort_key
from staging.settings
where false
