import { type Catalog, groupByTable, type Table, type TableShape, text } from './table-catalog.ts'

const toStrings = (value: unknown): readonly string[] => (Array.isArray(value) ? value.map(String) : [])
/** The default schema is not shown. */
const SCHEMA = "nullif(n.nspname, 'public')"
const FROM_TABLES = `FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace`
const IN_USER_SCHEMA = `n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'`
const IN_REQUESTED_TABLES = `($1::text IS NULL OR (n.nspname, c.relname) IN (SELECT w->>0, w->>1 FROM json_array_elements($1::json) w))`

const requestedTablesParam = (tables: readonly Table[] | undefined): string | null =>
  tables === undefined ? null : JSON.stringify(tables.map(({ schema = 'public', name }) => [schema, name]))

export const postgresCatalog: Catalog = {
  async tables(runQuery) {
    const rows = await runQuery(
      `SELECT c.relname, ${SCHEMA}, c.relkind, c.reltuples::bigint ${FROM_TABLES}
       WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND ${IN_USER_SCHEMA} AND NOT c.relispartition
       AND pg_catalog.has_table_privilege(c.oid, 'SELECT') ORDER BY n.nspname <> 'public', n.nspname, c.relname`,
    )
    return rows.map(([name, schema, kind, count]) => ({
      name: text(name),
      ...(schema !== null && { schema: text(schema) }),
      type: kind === 'v' || kind === 'm' ? 'view' : 'table',
      ...(Number(count) >= 0 && kind !== 'v' && { rows: Number(count) }),
    }))
  },
  async shapes(runQuery, requestedTables) {
    const params = [requestedTablesParam(requestedTables)]
    const columns = groupByTable(
      await runQuery(
        `SELECT ${SCHEMA}, c.relname, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull,
         pg_catalog.pg_get_expr(d.adbin, d.adrelid), coalesce(a.attnum = ANY (p.conkey), false), pg_catalog.col_description(c.oid, a.attnum)
         ${FROM_TABLES} JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
         LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
         LEFT JOIN pg_catalog.pg_constraint p ON p.conrelid = c.oid AND p.contype = 'p'
         WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND ${IN_USER_SCHEMA} AND ${IN_REQUESTED_TABLES} ORDER BY n.nspname, c.relname, a.attnum`,
        params,
      ),
    )
    const indexes = groupByTable(
      await runQuery(
        `SELECT ${SCHEMA}, c.relname, i.relname, x.indisunique,
         ARRAY(SELECT pg_catalog.pg_get_indexdef(x.indexrelid, k, true) FROM generate_series(1, x.indnkeyatts) k)
         ${FROM_TABLES} JOIN pg_catalog.pg_index x ON x.indrelid = c.oid JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
         WHERE ${IN_USER_SCHEMA} AND ${IN_REQUESTED_TABLES} ORDER BY n.nspname, c.relname, i.relname`,
        params,
      ),
    )
    const columnNames = (keys: string, table: string): string =>
      `ARRAY(SELECT a.attname::text FROM unnest(${keys}) WITH ORDINALITY k(num, at) JOIN pg_catalog.pg_attribute a ON a.attrelid = ${table}
       AND a.attnum = k.num ORDER BY k.at)`
    const keys = groupByTable(
      await runQuery(
        `SELECT ${SCHEMA}, c.relname, ${columnNames('f.conkey', 'f.conrelid')}, nullif(fn.nspname, 'public'), fc.relname,
         ${columnNames('f.confkey', 'f.confrelid')}, f.confdeltype, f.confupdtype
         ${FROM_TABLES} JOIN pg_catalog.pg_constraint f ON f.conrelid = c.oid AND f.contype = 'f'
         JOIN pg_catalog.pg_class fc ON fc.oid = f.confrelid JOIN pg_catalog.pg_namespace fn ON fn.oid = fc.relnamespace
         WHERE ${IN_USER_SCHEMA} AND ${IN_REQUESTED_TABLES} ORDER BY n.nspname, c.relname, f.conname`,
        params,
      ),
    )
    const tables = requestedTables ?? (await this.tables(runQuery))
    return tables.map(({ name, schema }): TableShape => {
      const key = `${schema ?? ''}\0${name}`
      return {
        name,
        ...(schema !== undefined && { schema }),
        columns: (columns.get(key) ?? []).map(([column, type, notNull, initial, primary, comment]) => ({
          name: text(column),
          type: text(type),
          nullable: notNull !== true,
          ...(initial !== null && { default: text(initial) }),
          ...(primary === true && { primary_key: true }),
          ...(comment !== null && { comment: text(comment) }),
        })),
        indexes: (indexes.get(key) ?? []).map(([index, unique, indexColumns]) => ({
          name: text(index),
          columns: toStrings(indexColumns),
          unique: unique === true,
        })),
        foreign_keys: (keys.get(key) ?? []).map(
          ([ownColumns, referencedSchema, referencedTable, referencedColumns, onDelete, onUpdate]) => ({
            columns: toStrings(ownColumns),
            references: referencedSchema === null ? text(referencedTable) : `${referencedSchema}.${referencedTable}`,
            referenced_columns: toStrings(referencedColumns),
            ...(ACTIONS[text(onDelete)] && { on_delete: ACTIONS[text(onDelete)] as string }),
            ...(ACTIONS[text(onUpdate)] && { on_update: ACTIONS[text(onUpdate)] as string }),
          }),
        ),
      }
    })
  },
  async routines(runQuery) {
    const rows = await runQuery(
      `SELECT p.proname, nullif(n.nspname, 'public'), p.prokind, pg_catalog.pg_get_function_arguments(p.oid),
       pg_catalog.pg_get_function_result(p.oid), l.lanname, p.prosrc FROM pg_catalog.pg_proc p
       JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace JOIN pg_catalog.pg_language l ON l.oid = p.prolang
       WHERE ${IN_USER_SCHEMA} AND p.prokind IN ('f', 'p') AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_depend d
       WHERE d.objid = p.oid AND d.deptype = 'e') ORDER BY n.nspname <> 'public', n.nspname, p.proname`,
    )
    return rows.map(([name, schema, kind, parameters, result, language, definition]) => ({
      name: text(name),
      ...(schema !== null && { schema: text(schema) }),
      type: kind === 'p' ? 'procedure' : 'function',
      arguments: text(parameters),
      ...(result !== null && { returns: text(result) }),
      language: text(language),
      definition: text(definition),
    }))
  },
  async relations(runQuery, names) {
    const rows = await runQuery(
      `SELECT DISTINCT lower(c.relname) FROM pg_catalog.pg_class c WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
       AND lower(c.relname) IN (SELECT json_array_elements_text($1::json))`,
      [JSON.stringify(names)],
    )
    return rows.map(([name]) => text(name))
  },
}

const ACTIONS: Readonly<Record<string, string>> = { c: 'CASCADE', n: 'SET NULL', d: 'SET DEFAULT', r: 'RESTRICT' }
