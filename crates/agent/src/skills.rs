//! Skills as a turn uses them: a folder with `SKILL.md` and `recipes/*.sh`.
//!
//! The model is told their names, what they are for and where they are, and
//! reads the rest when it needs it. Fetching and unpacking is in the bootstrap.

use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

use wire::agent::name_and_description;

use crate::session::Skill;

/// Most bytes of a `SKILL.md` that are looked at for its front matter.
const HEAD_BYTES: u64 = 64 << 10;
/// Most recipes of one skill that the model is told of.
const RECIPES: usize = 100;

/// A skill that can be used.
pub(crate) struct Bundle {
    id: String,
    name: String,
    description: String,
    pub(crate) directory: PathBuf,
    /// Their paths in the skill, such as `recipes/add-node.sh`.
    pub(crate) recipes: Vec<String>,
}

/// Looks into the skills that lie on disk.
pub(crate) fn open(skills: &[Skill]) -> Vec<Bundle> {
    skills.iter().map(Bundle::open).collect()
}

/// What our own model is told of skills; nothing when there are none.
pub(crate) fn instructions(bundles: &[Bundle]) -> String {
    described(
        bundles,
        "Read a skill's SKILL.md with read_file before you use it. Run its recipes with run_recipe.",
    )
}

/// What a CLI with tools of its own is told of skills; nothing when there are none.
pub(crate) fn directions(bundles: &[Bundle]) -> String {
    described(
        bundles,
        "Read SKILL.md in a skill's directory before you use it. Its recipes are shell scripts in \
         that directory.",
    )
}

fn described(bundles: &[Bundle], use_of_them: &str) -> String {
    if bundles.is_empty() {
        return String::new();
    }
    let mut text = format!("# Skills\n\n{use_of_them}\n");
    for bundle in bundles {
        let Bundle { name, description, directory, recipes, .. } = bundle;
        text.push_str(&format!("\n- {name}"));
        if !description.is_empty() {
            text.push_str(&format!(": {description}"));
        }
        text.push_str(&format!("\n  directory: {}", directory.display()));
        if !recipes.is_empty() {
            text.push_str(&format!("\n  recipes: {}", recipes.join(", ")));
        }
    }
    text
}

impl Bundle {
    fn open(skill: &Skill) -> Bundle {
        let head = head(&skill.directory.join("SKILL.md"));
        let (name, description) = name_and_description(&head);
        let name = if skill.name.is_empty() {
            name.unwrap_or(skill.id.clone())
        } else {
            skill.name.clone()
        };
        Bundle {
            id: skill.id.clone(),
            name,
            description: description.unwrap_or_default(),
            directory: skill.directory.clone(),
            recipes: recipes(&skill.directory),
        }
    }

    /// Whether the model means this one.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.id == name
    }

    /// The recipe that the model means: by its path, by its file name, or by
    /// that without its ending. Only what is there is found, so that no path
    /// leads out of the skill.
    pub(crate) fn recipe(&self, named: &str) -> Option<&str> {
        let named = named.trim_start_matches("./");
        let short = |recipe: &str| recipe.trim_start_matches("recipes/").to_owned();
        let found = self.recipes.iter().find(|recipe| {
            *recipe == named || short(recipe) == named || short(recipe) == format!("{named}.sh")
        });
        found.map(String::as_str)
    }
}

fn recipes(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory.join("recipes")) else { return Vec::new() };
    let names = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let name = entry.file_name().into_string().ok()?;
        (name.ends_with(".sh") && entry.file_type().ok()?.is_file()).then_some(name)
    });
    let mut recipes: Vec<String> = names.map(|name| format!("recipes/{name}")).collect();
    recipes.sort_unstable();
    recipes.truncate(RECIPES);
    recipes
}

/// The beginning of a file; nothing when there is none.
fn head(path: &Path) -> String {
    let mut bytes = Vec::new();
    // A skill without SKILL.md has recipes all the same.
    let _ = File::open(path).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{instructions, open};
    use crate::session::Skill;

    #[test]
    fn a_skill_is_told_with_its_recipes_and_nothing_else_is_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        fs::create_dir_all(path.join("recipes/more")).unwrap();
        fs::write(path.join("SKILL.md"), "---\nname: x\ndescription: Edits nodes.\n---\n").unwrap();
        fs::write(path.join("recipes/add-node.sh"), "").unwrap();
        fs::write(path.join("recipes/notes.txt"), "").unwrap();
        std::os::unix::fs::symlink("/bin/sh", path.join("recipes/out.sh")).unwrap();
        let skill = |name: &str| Skill {
            id: "sk_1".to_owned(),
            name: name.to_owned(),
            directory: path.to_owned(),
        };
        let bundles = open(&[skill("editor")]);
        assert_eq!(bundles[0].recipes, ["recipes/add-node.sh"]);
        for named in ["recipes/add-node.sh", "./recipes/add-node.sh", "add-node.sh", "add-node"] {
            assert_eq!(bundles[0].recipe(named), Some("recipes/add-node.sh"), "{named}");
        }
        for named in ["", "recipes/", "../SKILL.md", "out.sh", "recipes/notes.txt", "/bin/sh"] {
            assert_eq!(bundles[0].recipe(named), None, "{named}");
        }
        assert!(bundles[0].is_called("editor") && bundles[0].is_called("sk_1"));
        let told = instructions(&bundles);
        assert!(told.contains("- editor: Edits nodes.\n"), "{told}");
        assert!(told.contains("recipes: recipes/add-node.sh"), "{told}");
        assert!(open(&[skill("")])[0].is_called("x"));
        assert_eq!(instructions(&[]), "");
    }
}
