import { once } from '../core/once.ts'
import { stemOf } from './tokenize.ts'

/**
 * Words for the same action or thing in English and French, without accents. A query word also matches the other
 * words of its group; a literal match always scores higher.
 */
const GROUPS: readonly string[] = [
  'read open view show cat lire ouvrir afficher voir consulter',
  'get fetch retrieve obtain obtenir recuperer',
  'write save store ecrire enregistrer sauvegarder',
  'delete remove erase rm unlink destroy drop supprimer effacer enlever',
  'list ls enumerate lister enumerer dir',
  'search find lookup query locate chercher rechercher trouver recherche',
  'create make new add mkdir creer ajouter nouveau nouvelle',
  'update edit modify change patch alter modifier changer editer',
  'send post deliver submit envoyer poster soumettre',
  'copy duplicate clone cp copier dupliquer',
  'move rename mv relocate deplacer renommer',
  'run execute launch exec start lancer executer demarrer',
  'stop kill terminate halt cancel abort arreter annuler stopper',
  'download pull telecharger',
  'upload televerser',
  'translate traduire traduction',
  'summarize summarise summary resume resumer',
  'compute calculate calculator calculer calcul evaluate',
  'convert transform convertir transformer conversion',
  'compare diff comparer difference',
  'count number compter nombre',
  'schedule plan cron planifier programmer',
  'notify alert notification alerter notifier alerte',
  'install setup installer',
  'connect login connecter connexion signin',
  'compress zip archive compresser',
  'remember memorize memory recall retenir memoriser memoire souvenir',
  'share partager',
  'wait sleep delay attendre',
  'check verify validate test verifier valider',
  'file files document fichier',
  'folder directory dir dossier repertoire',
  'email mail gmail courriel message mailbox',
  'picture image photo photograph',
  'website site webpage url',
  'database db sql sqlite',
  'table tableau',
  'user account member utilisateur compte',
  'task todo tache',
  'calendar agenda calendrier',
  'event meeting appointment reunion evenement',
  'contact contacts person personne',
  'weather forecast meteo',
  'password secret credential',
  'repository repo depot',
  'issue bug ticket',
  'comment reply commentaire repondre reponse',
  'shell terminal bash command commande',
  'text texte string',
  'data donnees',
  'key cle',
  'price cost prix',
  'news actualites article',
]

/** The group of each stem, and the stems of each group. A word in several groups belongs to the first. */
export const synonymGroups = once(() => {
  const groupOf = new Map<string, number>()
  const stemsOf: string[][] = []
  for (const group of GROUPS) {
    const stems: string[] = []
    for (const word of group.split(' ')) {
      const stem = stemOf(word)
      if (groupOf.has(stem)) continue
      groupOf.set(stem, stemsOf.length)
      stems.push(stem)
    }
    stemsOf.push(stems)
  }
  return { groupOf, stemsOf }
})
