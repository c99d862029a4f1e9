import { type ToolDef, z } from 'pegboard'
import { invalid } from '../_errors.ts'
import type { Settings } from './config.ts'
import { hasConnection } from './connections.ts'
import { isLike } from './like.ts'
import { type Column, fullName, type Table, type TableShape } from './table-catalog.ts'
import {
  connection_id,
  createRunQuery,
  findTable,
  getConnection,
  listTables,
  onlyAnswer,
  prepareStatement,
  quotedTable,
  readShape,
  run,
  type ToolConnection,
  table,
  toRowObjects,
  warnIfTruncated,
} from './tool-connection.ts'

const common = {
  tags: ['database', 'schema'],
  effect: 'read',
  available: hasConnection,
  sideEffects: ['reads from the database'],
  opaque: ['rows', 'sample', 'matches.*.row'],
} as const

const Connection = z.object({ connection_id })
const Schema = z.object({
  what: z
    .enum(['tables', 'describe', 'all'])
    .default('tables')
    .describe('tables: table names; describe: one table; all: every table with its columns.'),
  table: table.optional(),
  connection_id,
})
const Describe = z.object({
  table,
  sample_limit: z.int().min(0).max(50).default(5).describe('Number of sample rows.'),
  connection_id,
})
const Browse = z.object({
  table,
  page: z.int().min(1).max(1_000_000).default(1).describe('Page number.'),
  per_page: z.int().min(1).max(100).default(20).describe('Rows per page.'),
  connection_id,
})
const Sample = z.object({ table, n: z.int().min(1).max(100).default(5).describe('Number of rows.'), connection_id })
const names = (what: string) => z.array(z.string().min(1).max(255)).min(1).max(50).optional().describe(what)
const Search = z.object({
  term: z.string().min(1).max(1_000).describe('Term to search for.'),
  tables: names('Only these tables; default all.'),
  columns: names('Only columns with these names; default all.'),
  mode: z
    .enum(['like', 'exact'])
    .default('like')
    .describe('like: part of the value, ignoring case; exact: the whole value.'),
  limit: z.int().min(1).max(500).default(50).describe('Maximum number of rows.'),
  connection_id,
})

/** More tables would be too much to read. */
const MAX_TABLES = 200

/** Runs a statement built from looked-up names; it is checked like any other. */
const readRows = async (connection: ToolConnection, sql: string, params: readonly string[] = [], maxRows = 100) =>
  onlyAnswer(
    await run(connection, [await prepareStatement(connection, { sql, params: [...params] }, 'read')], { maxRows }),
  )

async function tableList(connection: ToolConnection) {
  const tables = await listTables(connection)
  return { tables, count: tables.length }
}

export const list_tables: ToolDef<Settings, typeof Connection> = {
  ...common,
  title: 'List tables',
  description:
    'List the tables and views of a database, with estimated row counts where the database has them. For the columns of one use describe.',
  aliases: ['show tables', 'tables', 'lister les tables', 'mostrar tablas'],
  input: Connection,
  examples: [{ input: {} }],
  run: async ({ connection_id }, ctx) => await tableList(await getConnection(ctx, connection_id)),
}

async function tableDetails(connection: ToolConnection, name: string, sampleLimit: number) {
  const table = await findTable(connection, name)
  const shape = await readShape(connection, table)
  const sample =
    sampleLimit === 0
      ? []
      : toRowObjects(
          await readRows(
            connection,
            `SELECT * FROM ${quotedTable(connection, table)} LIMIT ${sampleLimit}`,
            [],
            sampleLimit,
          ),
        ).rows
  return {
    ...shape,
    type: table.type,
    ...(table.rows !== undefined && { row_estimate: table.rows }),
    primary_key: shape.columns.filter(({ primary_key }) => primary_key).map(({ name }) => name),
    ...(sampleLimit > 0 && { sample }),
  }
}

export const describe: ToolDef<Settings, typeof Describe> = {
  ...common,
  title: 'Describe a table',
  description:
    'Describe a table or view: columns with types, defaults and keys, indexes, foreign keys, and a few rows. Use it before writing a query.',
  aliases: ['table schema', 'columns', 'décrire une table', 'describir tabla'],
  input: Describe,
  examples: [{ input: { table: 'orders', sample_limit: 0 } }],
  run: async ({ table, sample_limit, connection_id }, ctx) =>
    await tableDetails(await getConnection(ctx, connection_id), table, sample_limit),
}

/** All tables with their columns, in short form. */
async function fullSchema(connection: ToolConnection) {
  const tables = await listTables(connection)
  const shownTables = tables.slice(0, MAX_TABLES)
  const shapes =
    shownTables.length === 0 ? [] : await connection.driver.catalog.shapes(createRunQuery(connection), shownTables)
  return {
    tables: shapes.map((shape, index) => ({
      name: fullName(shape),
      type: (shownTables[index] as Table).type,
      ...(shownTables[index]?.rows !== undefined && { rows: shownTables[index].rows }),
      columns: shape.columns,
      ...(shape.indexes.length > 0 && { indexes: shape.indexes }),
      ...(shape.foreign_keys.length > 0 && { foreign_keys: shape.foreign_keys }),
    })),
    count: tables.length,
    truncated: tables.length > shownTables.length,
  }
}

export const schema: ToolDef<Settings, typeof Schema> = {
  ...common,
  title: 'Show the schema',
  description:
    'Show the schema of a database: table names, one table, or every table with its columns. For one table describe is the same; for foreign keys alone relations.',
  aliases: ['database schema', 'schéma', 'esquema'],
  input: Schema,
  examples: [{ input: { what: 'all' } }, { input: { what: 'describe', table: 'orders' } }],
  async run({ what, table, connection_id }, ctx) {
    const connection = await getConnection(ctx, connection_id)
    if (what === 'tables') return await tableList(connection)
    if (what === 'all') return await fullSchema(connection)
    if (table === undefined) throw invalid('No table was named.', 'Pass table, or set what to "all".')
    return await tableDetails(connection, table, 0)
  },
}

export const introspect: ToolDef<Settings, typeof Connection> = {
  ...common,
  title: 'Inspect a database',
  description:
    'Show the whole structure of a database: kind and version, tables with columns, keys and indexes, and their relations. For a large database begin with list_tables.',
  aliases: ['explore database', 'database structure', 'explorer la base'],
  input: Connection,
  examples: [{ input: { connection_id: 'default' } }],
  async run({ connection_id }, ctx) {
    const connection = await getConnection(ctx, connection_id)
    const { dialect } = connection.driver
    const version = dialect.name === 'sqlite' ? 'sqlite_version()' : 'version()'
    const [[versionValue] = []] = await createRunQuery(connection)(`SELECT ${version}`)
    return {
      driver: dialect.name,
      version: String(versionValue),
      ...(await fullSchema(connection)),
      relations: await tableRelations(connection),
    }
  },
}

async function tableRelations(connection: ToolConnection) {
  const tables = (await listTables(connection)).filter(({ type }) => type === 'table')
  const shapes: readonly TableShape[] =
    tables.length === 0 ? [] : await connection.driver.catalog.shapes(createRunQuery(connection), tables)
  return shapes.flatMap((shape) => shape.foreign_keys.map((one) => ({ table: fullName(shape), ...one })))
}

export const relations: ToolDef<Settings, typeof Connection> = {
  ...common,
  title: 'Show relations',
  description:
    'Show how the tables of a database are related: each foreign key with its columns and target table. Use it to find out how to join.',
  aliases: ['foreign keys', 'how to join', 'clés étrangères', 'relaciones'],
  input: Connection,
  examples: [{ input: {} }],
  async run({ connection_id }, ctx) {
    const relations = await tableRelations(await getConnection(ctx, connection_id))
    return { relations, count: relations.length }
  },
}

/** Counting more rows takes too long. */
const MAX_COUNTED_ROWS = 1_000_000

export const browse: ToolDef<Settings, typeof Browse> = {
  ...common,
  title: 'Browse a table',
  description:
    'Browse the rows of a table or view page by page, in the order of its primary key. To choose rows or columns use query.',
  aliases: ['show rows', 'view table', 'parcourir une table', 'ver tabla'],
  input: Browse,
  examples: [{ input: { table: 'orders', page: 2 } }],
  async run({ table, page, per_page, connection_id }, ctx) {
    const connection = await getConnection(ctx, connection_id)
    const foundTable = await findTable(connection, table)
    const { columns } = await readShape(connection, foundTable)
    const quotedName = quotedTable(connection, foundTable)
    const primaryKey = columns
      .filter(({ primary_key }) => primary_key)
      .map(({ name }) => connection.driver.dialect.quote(name))
    const order = primaryKey.length > 0 ? ` ORDER BY ${primaryKey.join(', ')}` : ''
    const answer = await readRows(
      connection,
      `SELECT * FROM ${quotedName}${order} LIMIT ${per_page + 1} OFFSET ${(page - 1) * per_page}`,
      [],
      per_page,
    )
    const countAnswer =
      (foundTable.rows ?? 0) <= MAX_COUNTED_ROWS
        ? await readRows(connection, `SELECT count(*) FROM ${quotedName}`)
        : undefined
    const { truncated: more, ...shown } = toRowObjects(answer)
    return {
      table: fullName(foundTable),
      page,
      per_page,
      ...(countAnswer && { total: Number(countAnswer.rows[0]?.[0]) }),
      ...shown,
      more,
    }
  },
}

export const sample: ToolDef<Settings, typeof Sample> = {
  ...common,
  title: 'Sample a table',
  description: 'Show a few rows of a table or view, in any order. To see all of them page by page use browse.',
  aliases: ['example rows', 'head of table', 'exemples de lignes'],
  input: Sample,
  examples: [{ input: { table: 'orders' } }],
  async run({ table, n, connection_id }, ctx) {
    const connection = await getConnection(ctx, connection_id)
    const foundTable = await findTable(connection, table)
    const { truncated: _, ...shown } = toRowObjects(
      await readRows(connection, `SELECT * FROM ${quotedTable(connection, foundTable)} LIMIT ${n}`, [], n),
    )
    return { table: fullName(foundTable), ...shown }
  },
}

const Objects = z.object({
  object_type: z
    .enum(['schema', 'table', 'view', 'column', 'index', 'function', 'procedure'])
    .describe('Kind of object.'),
  pattern: z
    .string()
    .min(1)
    .max(100)
    .default('%')
    .describe('Name pattern: % matches any text, _ one character; case is ignored.'),
  table: table.optional().describe('Only columns and indexes of this table.'),
  detail: z.enum(['names', 'full']).default('names').describe('Names only, or all details.'),
  limit: z.int().min(1).max(1_000).default(100).describe('Maximum number of results.'),
  connection_id,
})

export const search_objects: ToolDef<Settings, typeof Objects> = {
  ...common,
  title: 'Search tables and columns',
  description:
    'Find tables, views, columns, indexes, functions, procedures or schemas by a name pattern, with names only or all details. For values in rows use search_data; for one table describe.',
  aliases: ['find table', 'find column', 'stored procedures', 'chercher une colonne', 'buscar tabla'],
  input: Objects,
  examples: [{ input: { object_type: 'column', pattern: '%_id' } }],
  async run({ object_type, pattern, table, detail, limit, connection_id }, ctx) {
    const connection = await getConnection(ctx, connection_id)
    const matches = (await listObjects(connection, object_type, table)).filter(({ name }) => isLike(name, pattern))
    return {
      objects: matches
        .slice(0, limit)
        .map(({ name, location, details }) => ({ name, ...location, ...(detail === 'full' && details) })),
      count: Math.min(matches.length, limit),
      truncated: matches.length > limit,
    }
  },
}

interface FoundObject {
  readonly name: string
  /** Where the value is. */
  readonly location: Readonly<Record<string, unknown>>
  readonly details: Readonly<Record<string, unknown>>
}

async function listObjects(
  connection: ToolConnection,
  type: z.infer<typeof Objects>['object_type'],
  table?: string,
): Promise<FoundObject[]> {
  if (type === 'function' || type === 'procedure')
    return (await connection.driver.catalog.routines(createRunQuery(connection)))
      .filter((one) => one.type === type)
      .map(({ name, schema, type: _, ...details }) => ({
        name,
        location: schema === undefined ? {} : { schema },
        details,
      }))
  const tables = table === undefined ? await listTables(connection) : [await findTable(connection, table)]
  if (type === 'schema') {
    const defaultSchema = connection.driver.dialect.name === 'postgresql' ? 'public' : connection.target.database
    const names = new Set(
      tables.map(({ schema }) => schema ?? (connection.driver.dialect.name === 'sqlite' ? 'main' : defaultSchema)),
    )
    return [...names].map((name) => ({ name, location: {}, details: {} }))
  }
  const shapes = tables.length === 0 ? [] : await connection.driver.catalog.shapes(createRunQuery(connection), tables)
  return shapes.flatMap((shape, index): FoundObject[] => {
    const location = shape.schema === undefined ? {} : { schema: shape.schema }
    if (type === 'column')
      return shape.columns.map(({ name, ...details }) => ({ name, location: { table: fullName(shape) }, details }))
    if (type === 'index')
      return shape.indexes.map(({ name, ...details }) => ({ name, location: { table: fullName(shape) }, details }))
    if ((tables[index] as Table).type !== type) return []
    const { name, schema: _, ...details } = shape
    return [{ name, location, details }]
  })
}

/** Column types that are not text. */
const BINARY_TYPE = /blob|bytea|binary|bit|geometry|vector/i

export const search_data: ToolDef<Settings, typeof Search> = {
  ...common,
  title: 'Search in a database',
  description:
    'Search for a term in the values of all or some tables and return the matching rows and columns. Slow on large tables: if you know the column, use query.',
  aliases: ['find value', 'search tables', 'chercher une valeur', 'buscar valor'],
  input: Search,
  examples: [{ input: { term: 'ada@example.com', mode: 'exact' } }],
  async run({ term, tables, columns, mode, limit, connection_id }, ctx) {
    const connection = await getConnection(ctx, connection_id)
    const all = tables
      ? await Promise.all(tables.map((name) => findTable(connection, name)))
      : await listTables(connection)
    const some = all.slice(0, MAX_TABLES)
    const shapes = some.length === 0 ? [] : await connection.driver.catalog.shapes(createRunQuery(connection), some)
    const lowerColumns = columns?.map((name) => name.toLowerCase())
    const matches: { table: string; columns: readonly string[]; row: Readonly<Record<string, unknown>> }[] = []
    for (const [index, shape] of shapes.entries()) {
      if (matches.length >= limit) break
      const searched = shape.columns.filter(
        ({ name, type }) => !BINARY_TYPE.test(type) && (lowerColumns?.includes(name.toLowerCase()) ?? true),
      )
      if (searched.length > 0)
        matches.push(...(await searchTable(connection, shape, searched, term, mode, limit - matches.length)))
      ctx.progress(index + 1, shapes.length, fullName(shape))
    }
    const truncated = matches.length >= limit
    return {
      matches,
      count: matches.length,
      tables_searched: shapes.length,
      truncated: truncated || all.length > some.length,
    }
  },
}

async function searchTable(
  connection: ToolConnection,
  shape: TableShape,
  columns: readonly Column[],
  term: string,
  mode: 'like' | 'exact',
  limit: number,
) {
  const { dialect } = connection.driver
  const compare = mode === 'like' ? dialect.like : dialect.equals
  const value = mode === 'like' ? `%${term.replaceAll(/[!%_]/g, '!$&')}%` : term
  const where = columns.map(({ name }, index) => compare(dialect.quote(name), `:p${index}`)).join(' OR ')
  const answer = await readRows(
    connection,
    `SELECT * FROM ${quotedTable(connection, shape)} WHERE ${where} LIMIT ${limit}`,
    columns.map(() => value),
    limit,
  )
  const { rows, truncated } = toRowObjects(answer)
  warnIfTruncated(connection, { truncated, rows: answer.rows }, limit)
  const matches = (cell: unknown): boolean => {
    const text = typeof cell === 'object' ? JSON.stringify(cell) : String(cell)
    return mode === 'exact' ? text === term : text.toLowerCase().includes(term.toLowerCase())
  }
  return rows.map((row) => ({
    table: fullName(shape),
    columns: columns.map(({ name }) => name).filter((name) => row[name] !== null && matches(row[name])),
    row,
  }))
}
