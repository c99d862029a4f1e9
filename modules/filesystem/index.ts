import { defineModule } from 'pegboard'
import { Config } from './config.ts'
import { ls, read } from './read.ts'
import { createGrep, find } from './search.ts'
import { mkdir, write } from './write.ts'

export default defineModule({
  name: 'filesystem',
  description: 'Reads, lists, searches and writes files in the folders the operator allows; nothing leads out of them.',
  config: Config,
  tools: { read, ls, find, grep: createGrep(), write, mkdir },
})
