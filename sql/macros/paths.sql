-- A drive letter or a UNC share makes a Windows path; `\\?\` in front hides either.
create or replace macro is_windows_path(p_path) as
    regexp_matches(p_path, '^([A-Za-z]:([\\/]|$)|\\\\)');

-- A POSIX path loses its trailing slashes, but for the root, and nothing else.
create or replace macro posix_project(p_path) as
    coalesce(nullif(rtrim(p_path, '/'), ''), '/');

-- A Windows path without `\\?\`.
create or replace macro short_windows_path(p_path) as
    regexp_replace(regexp_replace(p_path, '^\\\\\?\\UNC\\', '\\\\', 'i'), '^\\\\\?\\', '');

-- A Windows path with `/`, an upper drive letter, no trailing slash.
create or replace macro windows_project(p_path) as
    rtrim(
        replace(
            case
                when short_windows_path(p_path)[2] = ':'
                    then upper(short_windows_path(p_path)[1]) || short_windows_path(p_path)[2:]
                else short_windows_path(p_path)
            end,
            '\',
            '/'
        ),
        '/'
    );

-- The folder a session worked in, as one spelling shows it.
create or replace macro project_path(p_path) as
    case when is_windows_path(p_path) then windows_project(p_path) else posix_project(p_path) end;

-- What two spellings of one folder share: Windows paths do not differ by case.
create or replace macro project_key(p_path) as
    case when is_windows_path(p_path) then lower(windows_project(p_path)) else posix_project(p_path) end;
