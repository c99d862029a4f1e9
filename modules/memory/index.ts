import { defineModule } from 'pegboard'
import { Config, SETTING } from './config.ts'
import { forget, get_facts, recall, remember } from './facts.ts'
import { set_goal, task_create, task_update } from './goals-and-tasks.ts'
import { kg_add_entity, kg_add_relation, kg_query } from './graph.ts'
import { read_dna, shadow_get, shadow_set, unweave, vault_dna, weave } from './threadweave.ts'

export default defineModule({
  name: 'memory',
  description: 'Memory across sessions: facts, a goal and tasks, a knowledge graph, texts for channels.',
  config: Config,
  enabled: ({ config }) => config.enabled || `set ${SETTING}.enabled to true`,
  synonyms: [['memory', 'remember', 'recall', 'mémoire', 'memoria', 'Gedächtnis']],
  tools: {
    remember,
    recall,
    forget,
    get_facts,
    set_goal,
    task_create,
    task_update,
    kg_add_entity,
    kg_add_relation,
    kg_query,
    vault_dna,
    read_dna,
    weave,
    unweave,
    shadow_get,
    shadow_set,
  },
})
