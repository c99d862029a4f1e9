import { isPegboardError, type ToolDef, ToolError, z } from 'pegboard'
import { invalid, notFound } from '../_errors.ts'
import type { Param, Params } from './binding.ts'
import { SETTING, type Settings } from './config.ts'
import { hasConnection, hasWritableConnection } from './connections.ts'
import type { Answer, StatementOutcome } from './driver.ts'
import { singleStatement, tokenize, verbOf } from './sql.ts'
import {
  connection_id,
  getConnection,
  onlyAnswer,
  type PreparedStatement,
  params,
  prepareStatement,
  run,
  sql,
  type ToolConnection,
  toRowObjects,
  warnIfTruncated,
} from './tool-connection.ts'

const common = { tags: ['database', 'sql'], opaque: ['rows', 'results.*.rows'] }
const limit = z.int().min(1).max(50_000).default(1_000).describe('Maximum number of rows.')

const Query = z.object({ sql, params, connection_id, limit })
const Fetch = z.object({ query: sql, params, connection_id, limit })
const Execute = z.object({ sql, params, connection_id })
const statements = z
  .array(z.object({ sql, params }))
  .min(1)
  .max(1_000)
  .describe('Statements with their values, in order.')
const Batch = z.object({
  statements,
  stop_on_error: z.boolean().default(true).describe('Stop at the first error; earlier statements keep their effect.'),
  connection_id,
})
const Transaction = z.object({ statements, connection_id })

const example = { sql: 'SELECT id, total FROM orders WHERE customer = :p0 ORDER BY id', params: ['Ada'] }

/** Runs one reading statement. */
async function read(connection: ToolConnection, statement: { sql: string; params: Params; limit: number }) {
  const answer = onlyAnswer(
    await run(connection, [await prepareStatement(connection, statement, 'read')], { maxRows: statement.limit }),
  )
  warnIfTruncated(connection, answer, statement.limit)
  return toRowObjects(answer)
}

export const query: ToolDef<Settings, typeof Query> = {
  ...common,
  title: 'Query a database',
  description:
    'Query a database: run one SQL statement that only reads (SELECT, WITH, EXPLAIN, SHOW …) and return its rows; the database itself refuses to write. Put values into params, never into the text. To change data use execute; for the rows of one table browse is simpler.',
  aliases: ['sql', 'select', 'run query', 'requête sql', 'consulta'],
  input: Query,
  effect: 'read',
  available: hasConnection,
  sideEffects: ['runs a statement on the database'],
  examples: [{ input: example }],
  run: async ({ connection_id, ...statement }, ctx) => await read(await getConnection(ctx, connection_id), statement),
}

export const fetch_results: ToolDef<Settings, typeof Fetch> = {
  ...common,
  title: 'Fetch rows',
  description:
    'Fetch the rows of one SELECT, up to a limit of 50,000: columns, rows, count, and whether there were more. The same as query under the name other systems use.',
  aliases: ['fetch rows', 'select rows', 'récupérer les lignes'],
  input: Fetch,
  effect: 'read',
  available: hasConnection,
  sideEffects: ['runs a statement on the database'],
  examples: [{ input: { query: example.sql, params: example.params, limit: 100 } }],
  run: async ({ connection_id, query, ...statement }, ctx) =>
    await read(await getConnection(ctx, connection_id), { ...statement, sql: query }),
}

const Explain = z.object({ sql: sql.describe('The statement, without EXPLAIN.'), params, connection_id })
const EXPLAINED = new Set(['SELECT', 'WITH', 'VALUES', 'TABLE', 'INSERT', 'REPLACE', 'UPDATE', 'DELETE', 'MERGE'])

export const explain: ToolDef<Settings, typeof Explain> = {
  ...common,
  title: 'Explain a statement',
  description:
    'Explain how the database would run a statement (its plan: indexes and order) without running it. Use it if a query is slow.',
  aliases: ['query plan', 'explain plan', 'slow query', 'plan de requête'],
  input: Explain,
  effect: 'read',
  available: hasConnection,
  sideEffects: ['asks the database for a plan'],
  examples: [{ input: example }],
  async run({ sql, params, connection_id }, ctx) {
    const connection = await getConnection(ctx, connection_id)
    const { dialect } = connection.driver
    const verb = verbOf(singleStatement(tokenize(sql, dialect.lexicalRules)))
    if (!EXPLAINED.has(verb))
      throw invalid(
        `${verb || 'This'} has no plan.`,
        'Give a SELECT, INSERT, UPDATE or DELETE, without EXPLAIN before it.',
      )
    const prefix = dialect.name === 'sqlite' ? 'EXPLAIN QUERY PLAN' : 'EXPLAIN'
    return await read(connection, { sql: `${prefix} ${sql}`, params, limit: 1_000 })
  },
}

const Saved = z.object({
  name: z.string().min(1).max(64).describe('Which one.'),
  params: z.record(z.string(), z.unknown()).default({}).describe('Values of its parameters by name.'),
  limit,
})

export const saved_query: ToolDef<Settings, typeof Saved> = {
  ...common,
  title: 'Run a saved query',
  description: 'Run a query that the operator prepared, with values for its parameters, and return its rows.',
  aliases: ['prepared query', 'report', 'requête enregistrée'],
  input: Saved,
  effect: 'read',
  available: ({ config }) => Object.keys(config.saved_queries).length > 0 || `set ${SETTING}.saved_queries`,
  assemble: ({ config }, draft) => ({
    ...draft,
    description: `${draft.description} Queries: ${Object.entries(config.saved_queries).map(queryDescription).join('; ')}.`,
  }),
  sideEffects: ['runs a statement on the database'],
  examples: [{ input: { name: 'orders_of', params: { customer: 1 } } }],
  async run({ name, params, limit }, ctx) {
    const saved = ctx.config.saved_queries[name]
    if (!saved)
      throw notFound(`Unknown saved query: "${name}".`, `Queries: ${Object.keys(ctx.config.saved_queries).join(', ')}.`)
    const parameterNames = Object.keys(saved.parameters)
    const missingName = parameterNames.find(
      (parameter) => !(parameter in params) && saved.parameters[parameter]?.default === undefined,
    )
    if (missingName !== undefined)
      throw invalid(
        `"${name}" needs ${missingName}.`,
        saved.parameters[missingName]?.description ?? 'Add it to params.',
      )
    const defaults = parameterNames.map((parameter): [string, unknown] => [
      parameter,
      saved.parameters[parameter]?.default,
    ])
    const values = { ...Object.fromEntries(defaults), ...params } as Readonly<Record<string, Param>>
    return await read(await getConnection(ctx, saved.connection_id), { sql: saved.sql, params: values, limit })
  },
}

const queryDescription = ([name, { description, parameters }]: [string, Settings['saved_queries'][string]]): string =>
  `${name}(${Object.keys(parameters).join(', ')}) – ${description.replace(/[.;]+$/, '')}`

/** What a statement changed, or the rows it returned. */
function toChangeResult(answer: Answer): Record<string, unknown> {
  return {
    ...(answer.affected !== undefined && { affected_rows: answer.affected }),
    ...(answer.lastId !== undefined && { last_insert_id: answer.lastId }),
    ...(answer.columns.length > 0 && toRowObjects(answer)),
  }
}

async function change(connection: ToolConnection, statement: { sql: string; params: z.infer<typeof params> }) {
  const limit = 1_000
  const answer = onlyAnswer(
    await run(connection, [await prepareStatement(connection, { ...statement, limit }, 'write')], { maxRows: limit }),
  )
  warnIfTruncated(connection, answer, limit)
  return toChangeResult(answer)
}

export const execute: ToolDef<Settings, typeof Execute> = {
  ...common,
  title: 'Execute a statement',
  description:
    'Run one SQL statement that changes data (INSERT, UPDATE, DELETE) or, if the policy allows it, structure, and return the number of changed rows; RETURNING returns rows. It takes effect at once. For several that belong together use transaction, for many rows bulk_insert or upsert, to read query.',
  aliases: ['update rows', 'delete rows', 'insert row', 'modifier des données', 'exécuter sql'],
  input: Execute,
  effect: 'destructive',
  available: hasWritableConnection,
  sideEffects: ['changes data or structure of the database'],
  examples: [{ input: { sql: 'UPDATE orders SET paid = :paid WHERE id = :id', params: { paid: true, id: 7 } } }],
  run: async ({ connection_id, ...statement }, ctx) => await change(await getConnection(ctx, connection_id), statement),
}

export const execute_query: ToolDef<Settings, typeof Execute> = {
  ...common,
  title: 'Execute any statement',
  description:
    'Run any one SQL statement the policy of the connection allows, reading or writing, and return its rows or the number of changes. To only read, use query.',
  aliases: ['run sql', 'raw sql', 'exécuter une requête'],
  input: Execute,
  effect: 'destructive',
  available: hasConnection,
  sideEffects: ['may change data or structure of the database'],
  examples: [{ input: example }],
  run: async ({ connection_id, ...statement }, ctx) => await change(await getConnection(ctx, connection_id), statement),
}

async function prepareAll(
  connection: ToolConnection,
  statements: z.infer<typeof Batch>['statements'],
): Promise<readonly PreparedStatement[]> {
  const prepared: PreparedStatement[] = []
  for (const [index, one] of statements.entries())
    try {
      prepared.push(await prepareStatement(connection, { ...one, limit: 1_000 }, 'write'))
    } catch (error) {
      throw withStatementNumber(error, index, statements.length, 'none was run')
    }
  // EXPLAIN ANALYZE executes the statement, which only a read-only transaction would prevent.
  if (connection.policy.preset !== 'unrestricted' && prepared.some(({ access }) => access === 'write')) {
    const index = prepared.findIndex(({ verb }) => verb === 'EXPLAIN')
    if (index >= 0)
      throw invalid(`Statement ${index + 1} is an EXPLAIN, which cannot be combined with writing.`, 'Send it to query.')
  }
  return prepared
}

function withStatementNumber(error: unknown, index: number, total: number, consequence: string): unknown {
  if (!isPegboardError(error)) return error
  const { code, message, hint, retryable } = error
  return new ToolError(`Statement ${index + 1} of ${total}: ${message.replace(/\.$/, '')}; ${consequence}.`, {
    code,
    hint,
    retryable,
    data: { statement: index + 1 },
    cause: error,
  })
}

const describeOutcome = (outcome: StatementOutcome): Record<string, unknown> =>
  'error' in outcome ? { error: { code: outcome.error.code, message: outcome.error.message } } : toChangeResult(outcome)

export const batch_execute: ToolDef<Settings, typeof Batch> = {
  ...common,
  title: 'Execute several statements',
  description:
    'Run several SQL statements in order, each taking effect at once, and return the result or error of each. If all or none must succeed, use transaction.',
  aliases: ['batch sql', 'run statements', 'plusieurs requêtes'],
  input: Batch,
  effect: 'destructive',
  available: hasConnection,
  sideEffects: ['may change data or structure of the database'],
  examples: [{ input: { statements: [example, { sql: 'SELECT count(*) FROM orders' }], stop_on_error: false } }],
  async run({ connection_id, statements, stop_on_error }, ctx) {
    const connection = await getConnection(ctx, connection_id)
    const prepared = await prepareAll(connection, statements)
    const outcomes = await run(connection, prepared, {
      continueOnError: !stop_on_error,
      maxRows: 1_000,
      onDone: reportProgress(ctx, prepared.length),
    })
    const failed = outcomes.filter((outcome) => 'error' in outcome).length
    return {
      results: outcomes.map(describeOutcome),
      succeeded: outcomes.length - failed,
      failed,
      skipped: statements.length - outcomes.length,
    }
  },
}

const reportProgress =
  (ctx: ToolConnection['ctx'], total: number) =>
  (done: number): void =>
    ctx.progress(done, total, `${done} of ${total} statements`)

export const transaction: ToolDef<Settings, typeof Transaction> = {
  ...common,
  title: 'Run a transaction',
  description:
    'Run several SQL statements in a transaction: all succeed or none; an error undoes the earlier ones. Leave out BEGIN and COMMIT. For independent statements use batch_execute.',
  aliases: ['atomic sql', 'all or nothing', 'transaction sql', 'Transaktion'],
  input: Transaction,
  effect: 'destructive',
  available: hasWritableConnection,
  sideEffects: ['changes data or structure of the database'],
  examples: [
    {
      input: {
        statements: [
          { sql: 'UPDATE accounts SET balance = balance - :p0 WHERE id = :p1', params: [10, 1] },
          { sql: 'UPDATE accounts SET balance = balance + :p0 WHERE id = :p1', params: [10, 2] },
        ],
      },
    },
  ],
  async run({ connection_id, statements }, ctx) {
    const connection = await getConnection(ctx, connection_id)
    const prepared = await prepareAll(connection, statements)
    try {
      const outcomes = await run(connection, prepared, {
        atomic: true,
        maxRows: 1_000,
        onDone: reportProgress(ctx, prepared.length),
      })
      return { committed: true, results: outcomes.map(describeOutcome) }
    } catch (error) {
      const index = isPegboardError(error) ? (error.data as { statement?: number } | undefined)?.statement : undefined
      throw index === undefined ? error : withStatementNumber(error, index, prepared.length, 'nothing was changed')
    }
  },
}
