import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import { FILE } from './test/count.mjs'

export default defineConfig({
  resolve: {
    alias: {
      'pegboard/agent': fileURLToPath(new URL('./src/agent.ts', import.meta.url)),
      pegboard: fileURLToPath(new URL('./src/index.ts', import.meta.url)),
    },
  },
  test: {
    include: ['test/**/*.test.ts'],
    // Only where somebody wants to know: npm run test:security.
    setupFiles: existsSync(join(tmpdir(), FILE)) ? ['test/security/counting.ts'] : [],
    // On a busy machine all takes many times as long. What comes sooner is not waited for.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 15_000 } },
    maxWorkers: 2,
  },
})
