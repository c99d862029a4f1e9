import { defineModule } from 'pegboard'
import { Config } from './config.ts'
import { connect, disconnect, list_connections, set_policy } from './connect.ts'
import { connectionsFor, startConnections, stopConnections } from './connections.ts'
import {
  browse,
  describe,
  introspect,
  list_tables,
  relations,
  sample,
  schema,
  search_data,
  search_objects,
} from './read-tools.ts'
import { bulk_insert, drop_table, upsert } from './rows.ts'
import {
  batch_execute,
  execute,
  execute_query,
  explain,
  fetch_results,
  query,
  saved_query,
  transaction,
} from './statements.ts'

export default defineModule({
  name: 'database',
  description: 'Query and change SQLite, PostgreSQL, MySQL and MariaDB databases that the operator configures.',
  config: Config,
  synonyms: [
    ['database', 'db', 'sql', 'base de données', 'base de datos', 'Datenbank'],
    ['row', 'record', 'entry', 'ligne', 'fila'],
  ],
  promptSection({ config, caller, services, nameOf }) {
    const names = [...connectionsFor({ config, caller, services }).values()].map(
      ({ id, target, policy }) => `'${id}' (${target.driver}, ${policy.preset})`,
    )
    if (names.length === 0) return undefined
    const first = nameOf('database.list_tables')
    return {
      priority: 40,
      text: `Databases: ${names.slice(0, 12).join(', ')}.${first ? ` Begin with ${first}.` : ''}`,
    }
  },
  start({ log, signal, services, changed }) {
    const state = startConnections(services, log, changed)
    signal.addEventListener(
      'abort',
      () =>
        stopConnections(state).catch((error: unknown) => log.error('a database connection was not closed', { error })),
      { once: true },
    )
  },
  tools: {
    connect,
    disconnect,
    list_connections,
    set_policy,
    query,
    fetch_results,
    saved_query,
    explain,
    execute,
    execute_query,
    batch_execute,
    transaction,
    upsert,
    bulk_insert,
    drop_table,
    list_tables,
    schema,
    describe,
    introspect,
    relations,
    browse,
    sample,
    search_data,
    search_objects,
  },
})
