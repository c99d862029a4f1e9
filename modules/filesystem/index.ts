import { defineModule } from 'pegboard'
import { Config } from './config.ts'
import { createEdits } from './edit.ts'
import { exists, ls, stat, tree } from './list-and-stat.ts'
import { cp, mv, rm } from './move.ts'
import { read, read_many } from './read.ts'
import { read_file } from './read_file.ts'
import { createGrep, find } from './search.ts'
import { watch } from './watch.ts'
import { mkdir } from './write.ts'
import { write_file } from './write_file.ts'

const { write, edit, insert, undo } = createEdits()

export default defineModule({
  name: 'filesystem',
  description: 'Read, list, search and write files in the folders the operator allows.',
  config: Config,
  tools: {
    read,
    read_many,
    ls,
    tree,
    find,
    grep: createGrep(),
    stat,
    exists,
    watch,
    write,
    edit,
    insert,
    undo,
    mkdir,
    mv,
    cp,
    rm,
    read_file,
    write_file,
  },
})
