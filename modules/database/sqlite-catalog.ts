import {
  type Catalog,
  type ForeignKey,
  groupByTable,
  type Index,
  type RunQuery,
  type Table,
  type TableShape,
  text,
} from './table-catalog.ts'

const IS_USER_TABLE = "t.type IN ('table', 'view') AND t.name NOT LIKE 'sqlite!_%' ESCAPE '!'"

async function tables(runQuery: RunQuery): Promise<readonly Table[]> {
  const rows = await runQuery(`SELECT t.name, t.type FROM sqlite_master t WHERE ${IS_USER_TABLE} ORDER BY t.name`)
  return rows.map(([name, type]) => ({ name: text(name), type: type === 'view' ? 'view' : 'table' }))
}

export const sqliteCatalog: Catalog = {
  tables,
  async shapes(runQuery, requestedTables) {
    const found = requestedTables ?? (await tables(runQuery))
    const names = JSON.stringify(found.map(({ name }) => name))
    const from = `sqlite_master t JOIN json_each(?1) w ON w.value = t.name AND ${IS_USER_TABLE}`
    const columns = groupByTable(
      await runQuery(
        `SELECT '', t.name, c.name, c.type, c."notnull", c.dflt_value, c.pk FROM ${from} JOIN pragma_table_xinfo(t.name) c
         WHERE c.hidden <> 1 ORDER BY t.name, c.cid`,
        [names],
      ),
    )
    const indexes = groupByTable(
      await runQuery(
        `SELECT '', t.name, i.name, i."unique", c.name FROM ${from} JOIN pragma_index_list(t.name) i JOIN pragma_index_info(i.name) c
         ORDER BY t.name, i.seq, c.seqno`,
        [names],
      ),
    )
    const keys = groupByTable(
      await runQuery(
        `SELECT '', t.name, f.id, f."table", f."from", f."to", f.on_delete, f.on_update FROM ${from}
         JOIN pragma_foreign_key_list(t.name) f ORDER BY t.name, f.id, f.seq`,
        [names],
      ),
    )
    const primaryKeyOf = (name: string): readonly string[] =>
      (columns.get(`\0${name}`) ?? [])
        .filter(([, , , , pk]) => Number(pk) > 0)
        .sort((a, b) => Number(a[4]) - Number(b[4]))
        .map(([column]) => text(column))
    return found.map(({ name }): TableShape => {
      const tableIndexes: Index[] = []
      for (const [index, unique, column] of indexes.get(`\0${name}`) ?? []) {
        const last = tableIndexes.at(-1)
        const before = last?.name === index ? (tableIndexes.pop() as Index).columns : []
        tableIndexes.push({ name: text(index), columns: [...before, text(column)], unique: Number(unique) === 1 })
      }
      const foreignKeys = new Map<unknown, ForeignKey>()
      for (const [id, table, from, to, onDelete, onUpdate] of keys.get(`\0${name}`) ?? []) {
        const before = foreignKeys.get(id)
        // Without a column name it refers to the other table's primary key.
        const referencedColumn = to === null ? primaryKeyOf(text(table))[before?.columns.length ?? 0] : text(to)
        foreignKeys.set(id, {
          columns: [...(before?.columns ?? []), text(from)],
          references: text(table),
          referenced_columns: [
            ...(before?.referenced_columns ?? []),
            ...(referencedColumn === undefined ? [] : [referencedColumn]),
          ],
          ...(onDelete !== 'NO ACTION' && { on_delete: text(onDelete) }),
          ...(onUpdate !== 'NO ACTION' && { on_update: text(onUpdate) }),
        })
      }
      return {
        name,
        columns: (columns.get(`\0${name}`) ?? []).map(([column, type, notNull, initial, pk]) => ({
          name: text(column),
          type: text(type),
          nullable: Number(notNull) === 0 && Number(pk) === 0,
          ...(initial !== null && { default: text(initial) }),
          ...(Number(pk) > 0 && { primary_key: true }),
        })),
        indexes: tableIndexes,
        foreign_keys: [...foreignKeys.values()],
      }
    })
  },
  routines: async () => [],
  async relations(runQuery, names) {
    const rows = await runQuery(
      `SELECT DISTINCT lower(name) FROM (SELECT name FROM sqlite_master WHERE type IN ('table', 'view') UNION ALL SELECT 'sqlite_master'
       UNION ALL SELECT 'sqlite_schema' UNION ALL SELECT 'dbstat') WHERE lower(name) IN (SELECT value FROM json_each(?1))`,
      [JSON.stringify(names)],
    )
    return rows.map(([name]) => text(name))
  },
}
