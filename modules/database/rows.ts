import { type ToolDef, ToolError, z } from 'pegboard'
import { invalid } from '../_errors.ts'
import type { Param } from './binding.ts'
import type { Settings } from './config.ts'
import { hasUnrestrictedConnection, hasWritableConnection } from './connections.ts'
import { type Column, fullName } from './table-catalog.ts'
import {
  connection_id,
  connectionFor,
  onlyAnswer,
  type PreparedStatement,
  prepareStatement,
  quotedTable,
  rowValue,
  run,
  shapeOf,
  type ToolConnection,
  table,
  tableOf,
} from './tool-parts.ts'

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
function columnsOf(columns: readonly Column[], requestedNames: readonly string[], name: string): readonly Column[] {
  return requestedNames.map((one) => {
    const found =
      columns.find((column) => column.name === one) ??
      columns.find((column) => column.name.toLowerCase() === one.toLowerCase())
    if (found) return found
    throw invalid(`"${name}" has no column "${one}".`, `It has: ${columns.map((column) => column.name).join(', ')}.`)
  })
}

/** Objects and lists are stored as JSON in a JSON column. */
const paramFor = (value: Param | undefined, { type }: Column): Param =>
  typeof value === 'object' && value !== null && /json/i.test(type) ? JSON.stringify(value) : (value ?? null)

/** INSERT statements with as many rows as fit; a row with other columns starts a new statement. */
function inserts(
  into: string,
  rows: readonly Row[],
  chunk: number,
  at: ToolConnection,
  find: (names: readonly string[]) => readonly Column[],
  tail: (columns: readonly Column[]) => string,
): readonly { readonly sql: string; readonly params: readonly Param[] }[] {
  const { dialect } = at.link.driver
  const found: { names: string; columns: readonly Column[]; rows: Row[] }[] = []
  for (const [index, one] of rows.entries()) {
    const keys = Object.keys(one)
    if (keys.length === 0) throw invalid(`Row ${index + 1} has no columns.`, 'Give each row at least one value.')
    const names = JSON.stringify(keys)
    const last = found.at(-1)
    const most = last ? Math.min(chunk, Math.max(1, Math.floor(dialect.maxParams / last.columns.length))) : 0
    if (last?.names === names && last.rows.length < most) last.rows.push(one)
    else found.push({ names, columns: last?.names === names ? last.columns : find(keys), rows: [one] })
  }
  return found.map(({ columns, names, rows }) => {
    const keys = JSON.parse(names) as string[]
    const params: Param[] = []
    const values = rows.map(
      (one) =>
        `(${columns.map((column, at) => dialect.placeholder(params.push(paramFor(one[keys[at] as string], column)))).join(', ')})`,
    )
    const list = columns.map(({ name }) => dialect.quote(name)).join(', ')
    return { sql: `INSERT INTO ${into} (${list}) VALUES ${values.join(', ')}${tail(columns)}`, params }
  })
}

/** Checked like any other statement; the values are already bound. */
async function runAll(at: ToolConnection, all: ReturnType<typeof inserts>, total: number): Promise<number> {
  const statements: PreparedStatement[] = []
  for (const { sql, params } of all)
    statements.push({
      ...(await prepareStatement(at, { sql: sql.replaceAll(/\$\d+|\?\d*/g, 'NULL'), params: [] }, 'write')),
      sql,
      params,
    })
  const outcomes = await run(at, statements, {
    atomic: true,
    maxRows: 1,
    onDone: (done) => at.ctx.progress(Math.round((done / all.length) * total), total, `${done} of ${all.length} parts`),
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
    const all = [...(rows ?? []), ...(row ? [row] : [])] as readonly Row[]
    if (all.length === 0) throw invalid('No rows were given.', 'Pass rows or row.')
    const at = await connectionFor(ctx, connection_id)
    const found = await tableOf(at, table)
    const { columns } = await shapeOf(at, found)
    const find = (names: readonly string[]): readonly Column[] => columnsOf(columns, names, fullName(found))
    const conflict = find(conflict_columns).map(({ name }) => name)
    const update = update_columns && find(update_columns).map(({ name }) => name)
    const sent = inserts(quotedTable(at, found), all, 500, at, find, (given) =>
      at.link.driver.dialect.onConflict(
        conflict,
        update ?? given.map(({ name }) => name).filter((name) => !conflict.includes(name)),
      ),
    )
    await runAll(at, sent, all.length)
    return { table: fullName(found), rows: all.length }
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
    const at = await connectionFor(ctx, connection_id)
    const found = await tableOf(at, table)
    const { columns } = await shapeOf(at, found)
    const find = (names: readonly string[]): readonly Column[] => columnsOf(columns, names, fullName(found))
    const sent = inserts(quotedTable(at, found), rows as readonly Row[], chunk, at, find, () => '')
    return { table: fullName(found), inserted: await runAll(at, sent, rows.length), statements: sent.length }
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
    const at = await connectionFor(ctx, connection_id)
    if (at.link.policy.preset !== 'unrestricted')
      throw new ToolError('Dropping tables is not allowed on this connection.', {
        code: at.link.policy.preset === 'readonly' ? 'E_READ_ONLY' : 'E_DENIED_BY_POLICY',
        hint: `This needs ${at.link.setting}.policy "unrestricted".`,
      })
    const found = await tableOf(at, table).catch((error: unknown) => {
      if (if_exists && (error as { code?: unknown }).code === 'E_NOT_FOUND') return undefined
      throw error
    })
    if (!found) return { table, dropped: false }
    onlyAnswer(
      await run(at, [await prepareStatement(at, { sql: `DROP TABLE ${quotedTable(at, found)}`, params: [] }, 'write')]),
    )
    return { table: fullName(found), dropped: true }
  },
}
