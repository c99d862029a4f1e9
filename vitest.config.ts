import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import { BudgetReporter } from './test/budget.ts'
import { FILE } from './test/count.mjs'
import { UnfinishedFilesReporter } from './test/unfinished-files.ts'

export default defineConfig({
  resolve: {
    alias: {
      'pegboard/agent': fileURLToPath(new URL('./src/agent.ts', import.meta.url)),
      pegboard: fileURLToPath(new URL('./src/index.ts', import.meta.url)),
    },
  },
  test: {
    // Only where somebody wants to know: npm run test:security.
    setupFiles: existsSync(join(tmpdir(), FILE)) ? ['test/security/counting.ts'] : [],
    // On a busy machine all takes many times as long. What comes sooner is not waited for.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 30_000 } },
    maxWorkers: 2,
    reporters: ['default', new BudgetReporter(), new UnfinishedFilesReporter()],
    projects: [
      {
        extends: true,
        // Imports take longer than the tests of most files; without isolation each module is imported once a worker.
        test: {
          name: 'fast',
          include: ['test/**/*.test.ts'],
          exclude: ['**/node_modules', 'test/**/*.slow.test.ts'],
          isolate: false,
          // Most tests wait for other processes: two workers keep two processors busy for two thirds of the time.
          maxWorkers: 3,
          // Projects with different numbers of workers run one after the other.
          sequence: { groupOrder: 0 },
          setupFiles: ['test/leaked-state.ts'],
        },
      },
      { extends: true, test: { name: 'slow', include: ['test/**/*.slow.test.ts'], sequence: { groupOrder: 1 } } },
    ],
  },
})
