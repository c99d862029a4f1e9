import { join } from 'node:path'
import { callsOfModule, startApp, temporaryFolder } from '../app.ts'
import { type Kind, makeDatabase, type TestDatabase } from '../databases.ts'

type Settings = Record<string, unknown>

/** The whole product with the module enabled. */
export async function startDatabaseApp(
  config: Settings = {},
  dir = temporaryFolder(),
  more: Settings = {},
  env: Settings = {},
) {
  const { app, logged } = await startApp({ modules: { database: { config, ...more } } }, dir, {
    env: { PATH: process.env['PATH'], HOME: dir, PEGBOARD_STATE_DIR: join(dir, 'state'), ...env },
  })
  return { app, dir, logged, ...callsOfModule(app, 'database') }
}

export type DatabaseApp = Awaited<ReturnType<typeof startDatabaseApp>> & { readonly database: TestDatabase }

/** The module on a database of one kind, as the connection "default". */
export async function startOnDatabase(
  kind: Kind,
  connection: Settings = {},
  config: Settings = {},
  sql?: string,
): Promise<DatabaseApp> {
  const database = await makeDatabase(kind)
  if (sql !== undefined) await database.exec(sql)
  const rig = await startDatabaseApp({
    ...config,
    connections: { default: { ...database.connection, accept_role: true, ...connection } },
  })
  return { ...rig, database }
}

/** Two related tables, in SQL that all three databases accept. */
export const SHOP = `
CREATE TABLE customers (id INTEGER PRIMARY KEY, name VARCHAR(100) NOT NULL, email VARCHAR(100) UNIQUE, password VARCHAR(50));
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL, total DECIMAL(10,2) DEFAULT 0, note TEXT,
  FOREIGN KEY (customer_id) REFERENCES customers (id) ON DELETE CASCADE);
CREATE INDEX orders_by_customer ON orders (customer_id);
INSERT INTO customers VALUES (1, 'Ada', 'ada@example.com', 'hunter2hunter2'), (2, 'O''Brien', 'ob@example.com', NULL), (3, 'Zoë', NULL, NULL);
INSERT INTO orders VALUES (10, 1, 12.50, 'first'), (11, 1, 7.25, NULL), (12, 2, 100.00, '50% off_');
`
