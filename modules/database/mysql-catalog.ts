import { byTable, type Catalog, type ForeignKey, type Index, type TableShape, text } from './table-catalog.ts'

/** A condition on the names; a duplicate name is ignored. */
const among = (column: string, names: readonly string[] | undefined): string =>
  names === undefined ? '' : ` AND ${column} IN (${names.map(() => '?').join(', ') || 'NULL'})`

export const mysqlCatalog: Catalog = {
  async tables(ask) {
    const rows = await ask(
      `SELECT table_name, table_type, table_rows FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY table_name`,
    )
    return rows.map(([name, type, count]) => ({
      name: text(name),
      type: text(type).includes('VIEW') ? 'view' : 'table',
      ...(count !== null && { rows: Number(count) }),
    }))
  },
  async shapes(ask, requestedTables) {
    const names = requestedTables?.map(({ name }) => name)
    const columns = byTable(
      await ask(
        `SELECT '', table_name, column_name, column_type, is_nullable, column_default, column_key, column_comment
         FROM information_schema.columns WHERE table_schema = DATABASE()${among('table_name', names)} ORDER BY table_name, ordinal_position`,
        names,
      ),
    )
    const indexes = byTable(
      await ask(
        `SELECT '', table_name, index_name, non_unique, column_name FROM information_schema.statistics
         WHERE table_schema = DATABASE()${among('table_name', names)} ORDER BY table_name, index_name, seq_in_index`,
        names,
      ),
    )
    const keys = byTable(
      await ask(
        `SELECT '', k.table_name, k.constraint_name, k.column_name, k.referenced_table_schema, k.referenced_table_name,
         k.referenced_column_name, r.delete_rule, r.update_rule, k.table_schema
         FROM information_schema.key_column_usage k JOIN information_schema.referential_constraints r
         ON r.constraint_schema = k.constraint_schema AND r.constraint_name = k.constraint_name AND r.table_name = k.table_name
         WHERE k.table_schema = DATABASE() AND k.referenced_table_name IS NOT NULL${among('k.table_name', names)}
         ORDER BY k.table_name, k.constraint_name, k.ordinal_position`,
        names,
      ),
    )
    const found = requestedTables ?? (await this.tables(ask))
    return found.map(({ name }): TableShape => {
      const own = new Map<string, Index>()
      for (const [index, notUnique, column] of indexes.get(`\0${name}`) ?? []) {
        const before = own.get(text(index))
        own.set(text(index), {
          name: text(index),
          columns: [...(before?.columns ?? []), text(column)],
          unique: Number(notUnique) === 0,
        })
      }
      const foreign = new Map<string, ForeignKey>()
      for (const [key, column, schema, table, other, onDelete, onUpdate, here] of keys.get(`\0${name}`) ?? []) {
        const before = foreign.get(text(key))
        foreign.set(text(key), {
          columns: [...(before?.columns ?? []), text(column)],
          references: schema === here ? text(table) : `${schema}.${table}`,
          referenced_columns: [...(before?.referenced_columns ?? []), text(other)],
          ...(USUAL.has(text(onDelete)) ? {} : { on_delete: text(onDelete) }),
          ...(USUAL.has(text(onUpdate)) ? {} : { on_update: text(onUpdate) }),
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
        indexes: [...own.values()],
        foreign_keys: [...foreign.values()],
      }
    })
  },
  async routines(ask) {
    const rows = await ask(
      `SELECT r.routine_name, r.routine_type, r.dtd_identifier, r.routine_definition,
       (SELECT group_concat(concat_ws(' ', p.parameter_mode, p.parameter_name, p.dtd_identifier) ORDER BY p.ordinal_position SEPARATOR ', ')
        FROM information_schema.parameters p WHERE p.specific_schema = r.routine_schema AND p.specific_name = r.specific_name
        AND p.routine_type = r.routine_type AND p.ordinal_position > 0)
       FROM information_schema.routines r WHERE r.routine_schema = DATABASE() ORDER BY r.routine_name`,
    )
    return rows.map(([name, type, returns, definition, given]) => ({
      name: text(name),
      type: type === 'PROCEDURE' ? 'procedure' : 'function',
      arguments: text(given),
      ...(text(returns) !== '' && { returns: text(returns) }),
      ...(definition !== null && { definition: text(definition) }),
    }))
  },
  async relations(ask, names) {
    const rows = await ask(
      `SELECT DISTINCT lower(table_name) FROM information_schema.tables WHERE lower(table_name) IN (${names.map(() => '?').join(', ') || 'NULL'})`,
      names,
    )
    return rows.map(([name]) => text(name))
  },
}

const USUAL = new Set(['NO ACTION', 'RESTRICT'])
