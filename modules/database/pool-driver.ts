import type { Socket } from 'node:net'
import { type ErrorCode, isPegboardError, ToolError } from 'pegboard'
import { createTurns } from '../_turns.ts'
import { timeoutError, withDeadline } from './deadline.ts'
import type { Answer, Batch, Driver, RoleWarning, Statement, StatementOutcome, Target } from './driver.ts'
import { toUnavailableError } from './unavailable.ts'

/** What PostgreSQL and MySQL do differently. A session is a connection of the driver's pool. */
export interface PoolAdapter<Session> extends Pick<Driver, 'dialect' | 'catalog' | 'close'> {
  connect(): Promise<Session>
  /** Undoes what statements changed in the session, and returns it to the pool. */
  release(session: Session): Promise<void>
  destroy(session: Session): void
  streamOf(session: Session): Socket
  /** Stops the running statement. */
  cancel(session: Session): Promise<void>
  /** Runs one of our own statements. */
  query(session: Session, sql: string): Promise<unknown>
  /** Sets the limits, and begins the transaction if the batch needs one. */
  begin(session: Session, batch: Batch): Promise<void>
  /** After a failed statement, a transaction continues only from a savepoint. */
  readonly needsSavepoints: boolean
  /** @throws ToolError if the statement calls a function that does more than the statement may */
  checkFunctions(session: Session, statement: Statement, reads: boolean): Promise<void>
  runStatement(session: Session, statement: Statement, limits: Pick<Batch, 'maxRows' | 'maxBytes'>): Promise<Answer>
  parseError(error: unknown): DatabaseError
  checkRole(session: Session): Promise<RoleWarning | undefined>
}

export interface DatabaseError {
  /** Undefined if the statement is wrong. */
  readonly code: ErrorCode | undefined
  readonly message: string
  /** What the database suggests. */
  readonly hint?: string | undefined
}

const ERRORS: Partial<Record<ErrorCode, readonly [what: string, hint: string]>> = {
  E_READ_ONLY: ['The database refused to write', 'This connection, or this call, only reads.'],
  E_DB_BUSY: ['Another session is changing the same rows', 'Try again.'],
  E_DB_CORRUPT: ['The database reports that it is damaged', 'The operator has to check it.'],
  E_SQL_MULTI_STATEMENT: [
    'Several statements were sent where one is allowed; none was run',
    'Send one at a time, or use batch_execute or transaction.',
  ],
}

/** A driver that runs each batch in a session of a pool. */
export function createPoolDriver<Session>(adapter: PoolAdapter<Session>, target: Target): Driver {
  // A pool would count the wait for a session as a failure to connect, or wait forever.
  const turns = createTurns(target.maxSessions)
  const isClosed = (session: Session): boolean => adapter.streamOf(session).destroyed

  async function useSession<Result>(
    { timeoutMs, signal, principal }: Pick<Batch, 'timeoutMs' | 'signal' | 'principal'>,
    use: (session: Session, deadline: AbortSignal) => Promise<Result>,
  ): Promise<Result> {
    const endTurn = await turns.take(principal, signal)
    const session = await adapter.connect().catch((error: unknown) => {
      endTurn()
      throw toUnavailableError(error)
    })
    let isReusable = true
    try {
      return await withDeadline(
        (deadline) => use(session, deadline),
        timeoutMs,
        signal,
        () => adapter.cancel(session),
      )
    } catch (error) {
      isReusable =
        isPegboardError(error) &&
        error.code !== 'E_TIMEOUT' &&
        error.code !== 'E_DB_UNAVAILABLE' &&
        !isClosed(session) &&
        (await adapter.query(session, 'ROLLBACK').then(
          () => true,
          () => false,
        ))
      throw error
    } finally {
      if (isReusable && !isClosed(session)) await adapter.release(session).catch(() => adapter.destroy(session))
      else adapter.destroy(session)
      endTurn()
    }
  }

  const usesSavepoints = ({ access, continueOnError }: Batch): boolean =>
    adapter.needsSavepoints && access === 'read' && continueOnError === true

  async function runBatch(session: Session, batch: Batch, deadline: AbortSignal): Promise<readonly StatementOutcome[]> {
    const outcomes: StatementOutcome[] = []
    await adapter.begin(session, batch)
    for (const [index, statement] of batch.statements.entries()) {
      try {
        outcomes.push(await runStatement(session, statement, batch, deadline))
      } catch (error) {
        const failure = toToolError(error, batch, index)
        if (batch.atomic || deadline.aborted || failure.code === 'E_TIMEOUT') throw failure
        outcomes.push({ error: failure })
        if (!batch.continueOnError) break
        if (usesSavepoints(batch) && !isClosed(session)) await adapter.query(session, 'ROLLBACK TO SAVEPOINT statement')
      }
      batch.onDone?.(index + 1)
    }
    if (!isClosed(session)) await endTransaction(session, batch, deadline)
    return outcomes
  }

  async function runStatement(
    session: Session,
    statement: Statement,
    batch: Batch,
    deadline: AbortSignal,
  ): Promise<Answer> {
    if (isClosed(session)) throw createSessionEndedError()
    await adapter.checkFunctions(session, statement, batch.access === 'read')
    if (usesSavepoints(batch)) await adapter.query(session, 'SAVEPOINT statement')
    deadline.throwIfAborted()
    return await adapter.runStatement(session, statement, batch)
  }

  async function endTransaction(session: Session, batch: Batch, deadline: AbortSignal): Promise<void> {
    if (batch.access === 'read') await adapter.query(session, 'ROLLBACK')
    else if (batch.atomic) {
      deadline.throwIfAborted()
      await adapter.query(session, 'COMMIT')
    }
  }

  function toToolError(error: unknown, { atomic, timeoutMs, signal }: Batch, statement?: number): ToolError {
    if (isPegboardError(error)) return error as ToolError
    if (signal.aborted) return signal.reason as ToolError
    const { code, message, hint } = adapter.parseError(error)
    if (code === 'E_TIMEOUT') return timeoutError(timeoutMs, error)
    if (code === 'E_DB_UNAVAILABLE') return toUnavailableError(error)
    const known = code && ERRORS[code]
    return new ToolError(known ? `${known[0]}: ${message}.` : message, {
      ...(code && { code }),
      hint:
        known?.[1] ?? hint ?? 'Correct the statement. list_tables shows the tables, and describe the columns of one.',
      cause: error,
      ...(atomic && statement !== undefined && { data: { statement } }),
    })
  }

  return {
    dialect: adapter.dialect,
    catalog: adapter.catalog,
    close: adapter.close,
    run: (batch) =>
      useSession(batch, (session, deadline) =>
        runBatch(session, batch, deadline).catch((error: unknown) => {
          throw toToolError(error, batch)
        }),
      ),
    checkRole: () =>
      useSession(
        { timeoutMs: target.connectMs, signal: new AbortController().signal, principal: '' },
        adapter.checkRole,
      ),
  }
}

const createSessionEndedError = (): ToolError =>
  new ToolError('The session ended because a result was too long.', { hint: 'Query less data in each statement.' })

/** The driver's settings for TLS; undefined without TLS. */
export const tlsOptions = ({ ssl = 'off', ca }: Target): { rejectUnauthorized: boolean; ca?: string } | undefined =>
  ssl === 'off' ? undefined : { rejectUnauthorized: ssl === 'verify', ...(ca !== undefined && { ca }) }
