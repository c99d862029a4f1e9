import { type ToolDef, ToolError, z } from 'pegboard'
import { invalid } from '../_errors.ts'
import type { Param } from './binding.ts'
import type { Settings } from './config.ts'
import { hasUnrestrictedConnection, hasWritableConnection } from './connections.ts'
import { type Column, fullName } from './table-catalog.ts'
import {
  connection_id,
  findTable,
  getConnection,
  onlyAnswer,
  type PreparedStatement,
  prepareStatement,
  quotedTable,
  readShape,
  rowValue,
  run,
  type ToolConnection,
  table,
} from './tool-connection.ts'

type Row = Readonly<Record<string, Param>>
const row = z.record(z.string(), rowValue)
const column = z.string().min(1).max(255)

const Upsert = z.object({
  table,
  rows: z.array(row).min(1).max(10_000).optional().describe('Rows as objects: column to value.'),
  row: row.optional().describe('One row, instead of rows.'),
  conflict_columns: z.array(column).min(1).max(32).describe('Columns of a unique key that identify the row.'),
  update_columns: z
    .array(column)
    .max(1_000)
    .optional()
    .describe('Columns to update in an existing row; default all given ones, [] leaves it unchanged.'),
  connection_id,
})
const Bulk = z.object({
  table,
  rows: z.array(row).min(1).max(50_000).describe('Rows as objects: column to value.'),
  chunk: z.int().min(1).max(5_000).default(500).describe('Rows per statement.'),
  connection_id,
})
const Drop = z.object({
  table,
  if_exists: z.boolean().default(true).describe('Succeed if the table does not exist.'),
  connection_id,
})

const common = { tags: ['database', 'rows'] }
/** The columns by their exact names. */
function findColumns(columns: readonly Column[], requestedNames: readonly string[], name: string): readonly Column[] {
  return requestedNames.map((requestedName) => {
    const found =
      columns.find((column) => column.name === requestedName) ??
      columns.find((column) => column.name.toLowerCase() === requestedName.toLowerCase())
    if (found) return found
    throw invalid(
      `"${name}" has no column "${requestedName}".`,
      `It has: ${columns.map((column) => column.name).join(', ')}.`,
    )
  })
}

/** Objects and lists are stored as JSON in a JSON column. */
const toParam = (value: Param | undefined, { type }: Column): Param =>
  typeof value === 'object' && value !== null && /json/i.test(type) ? JSON.stringify(value) : (value ?? null)

/** INSERT statements with as many rows as fit; a row with other columns starts a new statement. */
function createInserts(
  table: string,
  rows: readonly Row[],
  chunk: number,
  connection: ToolConnection,
  find: (names: readonly string[]) => readonly Column[],
  suffix: (columns: readonly Column[]) => string,
): readonly { readonly sql: string; readonly params: readonly Param[] }[] {
  const { dialect } = connection.driver
  const groups: { names: string; columns: readonly Column[]; rows: Row[] }[] = []
  for (const [index, row] of rows.entries()) {
    const keys = Object.keys(row)
    if (keys.length === 0) throw invalid(`Row ${index + 1} has no columns.`, 'Give each row at least one value.')
    const names = JSON.stringify(keys)
    const last = groups.at(-1)
    const maxRows = last ? Math.min(chunk, Math.max(1, Math.floor(dialect.maxParams / last.columns.length))) : 0
    if (last?.names === names && last.rows.length < maxRows) last.rows.push(row)
    else groups.push({ names, columns: last?.names === names ? last.columns : find(keys), rows: [row] })
  }
  return groups.map(({ columns, names, rows }) => {
    const keys = JSON.parse(names) as string[]
    const params: Param[] = []
    const values = rows.map(
      (row) =>
        `(${columns.map((column, index) => dialect.placeholder(params.push(toParam(row[keys[index] as string], column)))).join(', ')})`,
    )
    const list = columns.map(({ name }) => dialect.quote(name)).join(', ')
    return { sql: `INSERT INTO ${table} (${list}) VALUES ${values.join(', ')}${suffix(columns)}`, params }
  })
}

/** Checked like any other statement; the values are already bound. */
async function runAll(
  connection: ToolConnection,
  inserts: ReturnType<typeof createInserts>,
  total: number,
): Promise<number> {
  const statements: PreparedStatement[] = []
  for (const { sql, params } of inserts)
    statements.push({
      ...(await prepareStatement(connection, { sql: sql.replaceAll(/\$\d+|\?\d*/g, 'NULL'), params: [] }, 'write')),
      sql,
      params,
    })
  const outcomes = await run(connection, statements, {
    atomic: true,
    maxRows: 1,
    onDone: (done) =>
      connection.ctx.progress(Math.round((done / inserts.length) * total), total, `${done} of ${inserts.length} parts`),
  })
  return outcomes.reduce((sum, outcome) => sum + ('error' in outcome ? 0 : (outcome.affected ?? 0)), 0)
}

export const upsert: ToolDef<Settings, typeof Upsert> = {
  ...common,
  title: 'Insert or update rows',
  description:
    'Insert rows into a table, or update existing rows, which the unique columns in conflict_columns identify. All rows succeed or none. For rows that are all new use bulk_insert.',
  aliases: ['insert or update', 'merge rows', 'insérer ou mettre à jour'],
  input: Upsert,
  effect: 'write',
  idempotent: true,
  available: hasWritableConnection,
  sideEffects: ['inserts and updates rows'],
  examples: [
    {
      input: {
        table: 'stock',
        rows: [
          { sku: 'A1', count: 5 },
          { sku: 'B2', count: 0 },
        ],
        conflict_columns: ['sku'],
      },
    },
  ],
  async run({ table, rows, row, conflict_columns, update_columns, connection_id }, ctx) {
    const allRows = [...(rows ?? []), ...(row ? [row] : [])] as readonly Row[]
    if (allRows.length === 0) throw invalid('No rows were given.', 'Pass rows or row.')
    const connection = await getConnection(ctx, connection_id)
    const foundTable = await findTable(connection, table)
    const { columns } = await readShape(connection, foundTable)
    const find = (names: readonly string[]): readonly Column[] => findColumns(columns, names, fullName(foundTable))
    const conflict = find(conflict_columns).map(({ name }) => name)
    const update = update_columns && find(update_columns).map(({ name }) => name)
    const inserts = createInserts(quotedTable(connection, foundTable), allRows, 500, connection, find, (given) =>
      connection.driver.dialect.onConflict(
        conflict,
        update ?? given.map(({ name }) => name).filter((name) => !conflict.includes(name)),
      ),
    )
    await runAll(connection, inserts, allRows.length)
    return { table: fullName(foundTable), rows: allRows.length }
  },
}

export const bulk_insert: ToolDef<Settings, typeof Bulk> = {
  ...common,
  title: 'Insert many rows',
  description:
    'Insert up to 50,000 rows into a table, in batches; all succeed or none. Missing columns get their default. If rows can already exist, use upsert.',
  aliases: ['insert rows', 'load rows', 'insérer des lignes', 'import rows'],
  input: Bulk,
  effect: 'write',
  available: hasWritableConnection,
  sideEffects: ['inserts rows'],
  examples: [{ input: { table: 'people', rows: [{ name: 'Ada' }, { name: "O'Brien" }] } }],
  async run({ table, rows, chunk, connection_id }, ctx) {
    const connection = await getConnection(ctx, connection_id)
    const foundTable = await findTable(connection, table)
    const { columns } = await readShape(connection, foundTable)
    const find = (names: readonly string[]): readonly Column[] => findColumns(columns, names, fullName(foundTable))
    const inserts = createInserts(
      quotedTable(connection, foundTable),
      rows as readonly Row[],
      chunk,
      connection,
      find,
      () => '',
    )
    return {
      table: fullName(foundTable),
      inserted: await runAll(connection, inserts, rows.length),
      statements: inserts.length,
    }
  },
}

export const drop_table: ToolDef<Settings, typeof Drop> = {
  ...common,
  title: 'Drop a table',
  description:
    'Drop a table with all its rows. This cannot be undone. Needs the policy unrestricted. To remove rows use execute.',
  aliases: ['delete table', 'remove table', 'supprimer une table'],
  input: Drop,
  effect: 'destructive',
  available: hasUnrestrictedConnection,
  sideEffects: ['removes a table and its rows permanently'],
  examples: [{ input: { table: 'old_orders' } }],
  async run({ table, if_exists, connection_id }, ctx) {
    const connection = await getConnection(ctx, connection_id)
    if (connection.policy.preset !== 'unrestricted')
      throw new ToolError('Dropping tables is not allowed on this connection.', {
        code: connection.policy.preset === 'readonly' ? 'E_READ_ONLY' : 'E_DENIED_BY_POLICY',
        hint: `This needs ${connection.setting}.policy "unrestricted".`,
      })
    const foundTable = await findTable(connection, table).catch((error: unknown) => {
      if (if_exists && (error as { code?: unknown }).code === 'E_NOT_FOUND') return undefined
      throw error
    })
    if (!foundTable) return { table, dropped: false }
    onlyAnswer(
      await run(connection, [
        await prepareStatement(
          connection,
          { sql: `DROP TABLE ${quotedTable(connection, foundTable)}`, params: [] },
          'write',
        ),
      ]),
    )
    return { table: fullName(foundTable), dropped: true }
  },
}
