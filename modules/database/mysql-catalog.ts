import { type Catalog, type ForeignKey, groupByTable, type Index, type TableShape, text } from './table-catalog.ts'

/** A condition on the names; a duplicate name is ignored. */
const andNameIn = (column: string, names: readonly string[] | undefined): string =>
  names === undefined ? '' : ` AND ${column} IN (${names.map(() => '?').join(', ') || 'NULL'})`

export const mysqlCatalog: Catalog = {
  async tables(runQuery) {
    const rows = await runQuery(
      `SELECT table_name, table_type, table_rows FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY table_name`,
    )
    return rows.map(([name, type, count]) => ({
      name: text(name),
      type: text(type).includes('VIEW') ? 'view' : 'table',
      ...(count !== null && { rows: Number(count) }),
    }))
  },
  async shapes(runQuery, requestedTables) {
    const names = requestedTables?.map(({ name }) => name)
    const columns = groupByTable(
      await runQuery(
        `SELECT '', table_name, column_name, column_type, is_nullable, column_default, column_key, column_comment
         FROM information_schema.columns WHERE table_schema = DATABASE()${andNameIn('table_name', names)} ORDER BY table_name, ordinal_position`,
        names,
      ),
    )
    const indexes = groupByTable(
      await runQuery(
        `SELECT '', table_name, index_name, non_unique, column_name FROM information_schema.statistics
         WHERE table_schema = DATABASE()${andNameIn('table_name', names)} ORDER BY table_name, index_name, seq_in_index`,
        names,
      ),
    )
    const keys = groupByTable(
      await runQuery(
        `SELECT '', k.table_name, k.constraint_name, k.column_name, k.referenced_table_schema, k.referenced_table_name,
         k.referenced_column_name, r.delete_rule, r.update_rule, k.table_schema
         FROM information_schema.key_column_usage k JOIN information_schema.referential_constraints r
         ON r.constraint_schema = k.constraint_schema AND r.constraint_name = k.constraint_name AND r.table_name = k.table_name
         WHERE k.table_schema = DATABASE() AND k.referenced_table_name IS NOT NULL${andNameIn('k.table_name', names)}
         ORDER BY k.table_name, k.constraint_name, k.ordinal_position`,
        names,
      ),
    )
    const tables = requestedTables ?? (await this.tables(runQuery))
    return tables.map(({ name }): TableShape => {
      const indexesByName = new Map<string, Index>()
      for (const [index, notUnique, column] of indexes.get(`\0${name}`) ?? []) {
        const before = indexesByName.get(text(index))
        indexesByName.set(text(index), {
          name: text(index),
          columns: [...(before?.columns ?? []), text(column)],
          unique: Number(notUnique) === 0,
        })
      }
      const foreignKeys = new Map<string, ForeignKey>()
      for (const [
        key,
        column,
        referencedSchema,
        referencedTable,
        referencedColumn,
        onDelete,
        onUpdate,
        ownSchema,
      ] of keys.get(`\0${name}`) ?? []) {
        const before = foreignKeys.get(text(key))
        foreignKeys.set(text(key), {
          columns: [...(before?.columns ?? []), text(column)],
          references: referencedSchema === ownSchema ? text(referencedTable) : `${referencedSchema}.${referencedTable}`,
          referenced_columns: [...(before?.referenced_columns ?? []), text(referencedColumn)],
          ...(DEFAULT_ACTIONS.has(text(onDelete)) ? {} : { on_delete: text(onDelete) }),
          ...(DEFAULT_ACTIONS.has(text(onUpdate)) ? {} : { on_update: text(onUpdate) }),
        })
      }
      return {
        name,
        columns: (columns.get(`\0${name}`) ?? []).map(([column, type, nullable, initial, key, comment]) => ({
          name: text(column),
          type: text(type),
          nullable: nullable === 'YES',
          // MariaDB reports NULL for columns without a default.
          ...(initial !== null && initial !== 'NULL' && { default: text(initial) }),
          ...(key === 'PRI' && { primary_key: true }),
          ...(text(comment) !== '' && { comment: text(comment) }),
        })),
        indexes: [...indexesByName.values()],
        foreign_keys: [...foreignKeys.values()],
      }
    })
  },
  async routines(runQuery) {
    const rows = await runQuery(
      `SELECT r.routine_name, r.routine_type, r.dtd_identifier, r.routine_definition,
       (SELECT group_concat(concat_ws(' ', p.parameter_mode, p.parameter_name, p.dtd_identifier) ORDER BY p.ordinal_position SEPARATOR ', ')
        FROM information_schema.parameters p WHERE p.specific_schema = r.routine_schema AND p.specific_name = r.specific_name
        AND p.routine_type = r.routine_type AND p.ordinal_position > 0)
       FROM information_schema.routines r WHERE r.routine_schema = DATABASE() ORDER BY r.routine_name`,
    )
    return rows.map(([name, type, returns, definition, parameters]) => ({
      name: text(name),
      type: type === 'PROCEDURE' ? 'procedure' : 'function',
      arguments: text(parameters),
      ...(text(returns) !== '' && { returns: text(returns) }),
      ...(definition !== null && { definition: text(definition) }),
    }))
  },
  async relations(runQuery, names) {
    const rows = await runQuery(
      `SELECT DISTINCT lower(table_name) FROM information_schema.tables WHERE lower(table_name) IN (${names.map(() => '?').join(', ') || 'NULL'})`,
      names,
    )
    return rows.map(([name]) => text(name))
  },
}

const DEFAULT_ACTIONS = new Set(['NO ACTION', 'RESTRICT'])
